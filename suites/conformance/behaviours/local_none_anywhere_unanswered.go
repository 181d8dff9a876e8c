package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func localNoneAnywhereUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "local-none-anywhere-unanswered", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "Under policy Local a Service without a ready endpoint on any node is not answered, at node ports from outside and at the ClusterIP from pods, by TCP and UDP: connections may be refused or dropped.",
		Promises: []promise.Promise{promise.ExternalLocalDrops, promise.ReadyEndpoints, promise.InternalLocal, promise.Synchronized},
		Writes:   kit.SinceInternalPolicy,
		Upstream: "[sig-network] Services should be rejected when no endpoints exist",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.InternalLocal, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("udp", corev1.ProtocolUDP, 80)))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			all := func(want func(*kit.Node) kit.Want) {
				for _, n := range s.Nodes[:2] {
					s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), want(n))
					s.Expect(s.Outside(), kit.UDP(svc.NodePort(n, "udp")), want(n))
					s.Expect(n.B.Client, kit.TCP(svc.ClusterIP()), want(n))
					s.Expect(n.B.Client, kit.UDP(svc.ClusterIP("udp")), want(n))
				}
			}
			all(func(n *kit.Node) kit.Want { return kit.Pods(n.A) })
			svc.Endpoints(s.Nodes[0].A.NotReady())
			all(func(*kit.Node) kit.Want { return kit.Unreachable() })
		},
	}
}
