package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func terminatingFallbackDecidedSeparately() kit.Behaviour {
	return kit.Behaviour{
		ID: "terminating-fallback-decided-separately", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Whether terminating endpoints are used is decided for each policy alone, for Local may need them where Cluster has ready ones elsewhere, and for each port.",
		Promises: []promise.Promise{promise.AllTerminating},
		Writes:   kit.SinceInternalPolicy,
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal)
			here, there := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(here.Draining(), there.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(here))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(there))
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(there))
			ports, client := s.Service(kit.Both), s.Nodes[3].B.Client
			apart(ports, here.Draining(), there.Ready())
			s.Expect(client, kit.UDP(ports.ClusterIP("dns")), kit.Pods(there))
			s.Expect(client, kit.TCP(ports.ClusterIP()), kit.Pods(here))
		},
	}
}
