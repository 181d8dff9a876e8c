package conformance

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

var _ = behaviour(kit.Behaviour{
	ID: "source-ranges-no-endpoints", Level: kit.May, Profile: kit.ProfileVIP,
	Says:   "A Service without endpoints rejects also those clients that its source ranges would drop: nothing is there to keep from them.",
	Source: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go"},
}, func(s *kit.Spec) {
	inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
	svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
	svc.Endpoints(s.Nodes[1].A.Ready())
	svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
	s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[1].A))
	svc.Endpoints()
	s.Expect(inside, kit.TCP(svc.At(vip)), kit.Rejected())
	s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
})
