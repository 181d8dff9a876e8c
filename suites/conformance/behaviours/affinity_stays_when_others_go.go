package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityStaysWhenOthersGo() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-stays-when-others-go", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client stays with its endpoint when others leave and come back, and when something else of the Service changes, by TCP and UDP.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Both)
			clients := []kit.Client{s.Nodes[0].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client}
			stayBound(s, svc, svc.Ways(clients...), clients)
		},
	}
}
