package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalSourceKept() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-source-kept", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under externalTrafficPolicy=Local endpoints see the outside client's own address, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.SourceTrusted},
		Upstream: "[sig-network] Services should support externalTrafficPolicy=Local for type=NodePort",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.Both)
			svc.Kinds()
			for i, server := range s.OfKinds() {
				want := kit.Only(server).From(s.Source(s.Outside(), s.Nodes[i]))
				s.Each(svc.NodePortWays(s.Nodes[i], s.Outside()), want)
			}
		},
	}
}
