package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesDenyDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-deny-dropped", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "Clients that are in none of the loadBalancerSourceRanges are dropped at the load balancer address, not rejected.",
		Promises: []promise.Promise{promise.RangesDrop, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnPods, kit.FeatureRangesDrop},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Run: func(s *kit.Spec) {
			inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[1].A))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Dropped())
		},
	}
}
