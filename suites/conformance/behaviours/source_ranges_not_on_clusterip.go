package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesNotOnClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-not-on-clusterip", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges do not hold at the ClusterIP of the Service: clients in none of them are answered, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges, promise.ClusterIP},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside, pod := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0]), s.Nodes[0].A.Client
			svc, vip := atVIP(s, kit.SourceRanges(kit.Alone(inside.Addr(s.Family))))
			svc.Endpoints(s.Nodes[0].B.Ready())
			s.Each(svc.WaysTo(vip, inside), kit.Pods(s.Nodes[0].B))
			s.Each(svc.WaysTo(vip, outside), kit.Unreachable())
			s.Each(svc.Ways(pod, s.Nodes[0].Client), kit.Pods(s.Nodes[0].B))
		},
	}
}
