package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-policy", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "externalIPs obey externalTrafficPolicy=Local as load balancers do: pods and nodes reach all endpoints, hosts outside those of the node alone and where there are none are dropped, by TCP and UDP, which each may have endpoints of its own.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.ExternalFromInside, promise.ExternalLocalDrops, promise.AnyBackend, promise.ReadyEndpoints},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr), kit.Both)
			hosts := s.HostsBeyond(s.FirstNodes()...)
			inside := svc.WaysTo(addr, s.Inside()...)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				for i, server := range s.OfKinds() {
					s.Each(svc.WaysTo(addr, hosts[i]), kit.Only(server).FromItself())
				}
				s.Each(inside, want)
				s.Each(svc.WaysTo(addr, hosts[3]), kit.Dropped())
			}
			ports, its := atExternalIP(s, kit.NodePorts, kit.ExternalLocal)
			apartLocally(s, ports, func(n *kit.Node) []kit.Way { return ports.WaysTo(its, s.HostBeyond(n)) }, kit.Dropped())
		},
	}
}
