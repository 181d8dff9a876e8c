package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityEndpointGoneRebinds() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-endpoint-gone-rebinds", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client whose endpoint is gone gets another at once, and stays with that.",
		Promises: []promise.Promise{promise.Affinity, promise.ReadyEndpointsInside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600))
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A}
			for _, c := range []kit.Client{s.Nodes[0].B.Client, s.Nodes[0].Client} {
				svc.Endpoints(kit.ReadyAll(pods)...)
				bound := s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 10, kit.Clients(pods...)...)
				var left []kit.Endpoint
				var rest []kit.Client
				for _, p := range pods {
					if p.Name != bound.Name {
						left, rest = append(left, p.Ready()), append(rest, p.Client)
					}
				}
				svc.Endpoints(left...)
				s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 40, rest...)
			}
		},
	}
}
