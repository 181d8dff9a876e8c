package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesNoEndpoints() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-no-endpoints", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "While a Service has no endpoint, its load balancer address rejects the clients in its loadBalancerSourceRanges, and answers no others: those may be dropped or rejected.",
		Promises: []promise.Promise{promise.RefusedWithoutEndpoints, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go"},
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnPods},
		Run: func(s *kit.Spec) {
			inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[1].A))
			svc.Endpoints()
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Rejected())
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
		},
	}
}
