package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-from-node", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for processes on a node too: one whose address is in none is not answered, under each externalTrafficPolicy.",
		Promises: []promise.Promise{promise.RangesDrop, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnNodes},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Run: func(s *kit.Spec) {
			inside, also, outside := s.Nodes[0].Client, s.Nodes[1].A.Client, s.Nodes[1].Client
			ranges := kit.SourceRanges(kit.Alone(inside.Addr(s.Family)), kit.Alone(also.Addr(s.Family)))
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc, vip := atVIP(s, policy, ranges)
				svc.Endpoints(s.Nodes[2].A.Ready())
				s.Each(svc.WaysTo(vip, inside, also), kit.Pods(s.Nodes[2].A))
				s.Each(svc.WaysTo(vip, outside), kit.Unreachable())
			}
		},
	}
}
