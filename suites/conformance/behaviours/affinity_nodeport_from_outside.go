package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityNodePortFromOutside() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-nodeport-from-outside", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client outside or inside to a node's port go to one endpoint.",
		Promises: []promise.Promise{promise.Affinity, promise.NodePort},
		Upstream: "[sig-network] Services should have session affinity work for NodePort service [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Sticky(600), kit.Both)
			svc.Kinds()
			s.EachOne(svc.NodePortWaysOfAll(), s.OfKinds()...)
		},
	}
}
