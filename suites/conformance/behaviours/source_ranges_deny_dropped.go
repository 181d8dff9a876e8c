package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesDenyDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-deny-dropped", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "Clients that are in none of the loadBalancerSourceRanges are dropped at the load balancer address, not rejected, pods and hosts outside, by TCP and UDP.",
		Promises: []promise.Promise{promise.RangesDrop, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnPods, kit.FeatureRangesDrop},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Run: func(s *kit.Spec) {
			inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
			svc, vip := atVIP(s, kit.SourceRanges(kit.Alone(inside.Addr(s.Family))))
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Each(svc.WaysTo(vip, inside), kit.Pods(s.Nodes[1].A))
			s.Each(svc.WaysTo(vip, outside), kit.Dropped())
			if s.Met(kit.NeedNodes) {
				s.Each(svc.WaysTo(vip, s.HostBeyond(s.Nodes[0])), kit.Dropped())
			}
		},
	}
}
