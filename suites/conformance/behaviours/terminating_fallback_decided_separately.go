package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackDecidedSeparately() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-decided-separately", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Whether terminating endpoints are used is decided for each policy alone, for Local may need them where Cluster has ready ones elsewhere, and for each port, at every address.",
		Promises: []promise.Promise{promise.AllTerminating, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal)
			here, there := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(here.Draining(), there.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(here))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(there))
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(there))
			ports, addrs := atAll(s)
			client, outside := s.Nodes[3].B.Client, s.Outside()
			apart(ports, here.Draining(), there.Ready())
			ways := append(ports.Ways(client), ports.NodePortWays(s.Nodes[3], outside, client)...)
			for i, way := range append(ways, waysToAll(ports, addrs, client)...) { // by TCP and UDP in turn
				s.Expect(way.From, way.To, kit.Pods([]*kit.Pod{here, there}[i%2]))
			}
		},
	}
}
