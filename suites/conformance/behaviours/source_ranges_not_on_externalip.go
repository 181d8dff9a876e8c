package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesNotOnExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-not-on-externalip", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges do not hold at externalIPs of the Service: clients in none of them are answered, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			external := s.FreeAddr()
			inside, outside, pod := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0]), s.Nodes[0].A.Client
			svc, vip := atVIP(s, kit.ExternalIPs(external), kit.SourceRanges(kit.Alone(inside.Addr(s.Family))))
			svc.Endpoints(s.Nodes[0].B.Ready())
			s.Each(svc.WaysTo(vip, inside), kit.Pods(s.Nodes[0].B))
			s.Each(svc.WaysTo(vip, outside), kit.Unreachable())
			s.Each(svc.WaysTo(external, outside, pod, s.Nodes[0].Client), kit.Pods(s.Nodes[0].B))
		},
	}
}
