package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortHandedOn() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-handed-on", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port that one Service gives up is answered by the endpoints of the one that gets it, by TCP and UDP, and so when it gets it back.",
		Promises: []promise.Promise{promise.NodePort, promise.Synchronized},
		Serial:   true, // others may be given the node port in between
		Run: func(s *kit.Spec) {
			one, two, n := s.Service(kit.NodePorts, kit.Both), s.Service(kit.Both), s.Nodes
			one.Endpoints(n[0].A.Ready())
			two.Endpoints(n[1].A.Ready())
			ways := one.NodePortWays(n[2], s.Outside(), n[3].B.Client)
			s.Each(ways, kit.Pods(n[0].A))
			for _, next := range []struct {
				from, to *kit.Service
				pod      *kit.Pod
			}{{one, two, n[1].A}, {two, one, n[0].A}} {
				had := next.from.Object().Spec.Ports
				next.from.Update(func(o *corev1.Service) {
					o.Spec.Type, o.Spec.Ports[0].NodePort, o.Spec.Ports[1].NodePort = corev1.ServiceTypeClusterIP, 0, 0
				})
				next.to.Update(func(o *corev1.Service) {
					kit.NodePorts(o)
					o.Spec.Ports[0].NodePort, o.Spec.Ports[1].NodePort = had[0].NodePort, had[1].NodePort
				})
				s.Each(ways, kit.Pods(next.pod))
			}
		},
	}
}
