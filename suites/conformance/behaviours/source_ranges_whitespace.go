package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

func sourceRangesWhitespace() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-whitespace", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:   "White space around a source range is no part of it.",
		Source: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/serviceport.go"},
		Run: func(s *kit.Spec) {
			inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(" "+kit.Alone(inside.Addr(s.Family))+" ")), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[1].A))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Dropped())
		},
	}
}
