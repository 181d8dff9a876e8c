package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func localNoneAnywhereUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "local-none-anywhere-unanswered", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under policy Local a Service without a ready endpoint on any node, of whatever kind, is not answered, at node ports from outside and at the ClusterIP from pods and nodes, by TCP and UDP: connections may be refused or dropped.",
		Promises: []promise.Promise{promise.ExternalLocalDrops, promise.ReadyEndpoints, promise.InternalLocal, promise.Synchronized, promise.Ready, promise.TerminatingNotServing},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.InternalLocal, kit.Both)
			for _, state := range []func(kit.Endpoint) kit.Endpoint{kit.Endpoint.Unready, kit.Endpoint.Ended} {
				svc.Kinds()
				var ways []kit.Way
				for i, server := range s.OfKinds() {
					n := s.Nodes[i]
					of := append(svc.Ways(n.B.Client, n.Client), svc.NodePortWays(n, s.Outside())...)
					s.Each(of, kit.Only(server))
					ways = append(ways, of...)
				}
				svc.AllKinds(state)
				s.Each(ways, kit.Unreachable())
			}
		},
	}
}
