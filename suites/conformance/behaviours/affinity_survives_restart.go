package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySurvivesRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-survives-restart", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Clients stay with their endpoints over a restart of the dataplane's agents: of a ClusterIP and of node ports, by TCP and UDP.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go"},
		Features: []kit.Feature{kit.FeatureAffinitySurvives},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Sticky(600), kit.Both)
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			ways := svc.Ways(kit.Clients(pods...)...)
			for _, n := range s.FirstNodes() {
				ways = append(ways, svc.NodePortWays(n, s.Outside())...)
			}
			bound := make([]kit.Client, len(ways))
			for i, way := range ways {
				bound[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
			}
			s.WithoutAgents(func() {})
			s.ExpectFollowing()
			for i, way := range ways {
				s.Expect(way.From, way.To, kit.Only(bound[i]).Times(5))
			}
		},
	}
}
