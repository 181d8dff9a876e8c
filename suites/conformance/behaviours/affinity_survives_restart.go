package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySurvivesRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-survives-restart", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Clients stay with their endpoints over a restart of the dataplane's agents.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go"},
		Features: []kit.Feature{kit.FeatureAffinitySurvives},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			bound := map[string]kit.Client{}
			for _, c := range kit.Clients(pods...) {
				bound[c.Name] = s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...)
			}
			s.WithoutAgents(func() {})
			for _, c := range kit.Clients(pods...) {
				s.Expect(c, kit.TCP(svc.ClusterIP()), kit.Only(bound[c.Name]).Times(5))
			}
		},
	}
}
