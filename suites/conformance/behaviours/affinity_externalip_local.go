package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityExternalIPLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-externalip-local", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Under externalTrafficPolicy=Local a client with sessionAffinity=ClientIP stays with one of all endpoints at an external IP from inside, and from outside with one of the node it arrives at, by TCP and UDP.",
		Promises: []promise.Promise{promise.Affinity, promise.ExternalFromInside},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addr := atExternalIP(s, kit.NodePorts, kit.ExternalLocal, kit.Sticky(600))
			n := s.Nodes[0]
			svc.Kinds(n.B.Ready())
			s.EachOne(svc.WaysTo(addr, s.Inside()...), append(s.OfKinds(), n.B.Client)...)
			s.EachOne(svc.WaysTo(addr, s.HostBeyond(n)), n.A.Client, n.B.Client)
		},
	}
}
