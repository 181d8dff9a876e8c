package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-from-node", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for processes on a node too: one whose address is in none is not answered.",
		Promises: []promise.Promise{promise.RangesDrop, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnNodes},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Run: func(s *kit.Spec) {
			inside, also, outside := s.Nodes[0].Client, s.Nodes[1].A.Client, s.Nodes[1].Client
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family)), kit.Alone(also.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[2].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[2].A))
			s.Expect(also, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[2].A))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
		},
	}
}
