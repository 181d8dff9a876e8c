package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A process in the network of a node that dials the address of a load balancer in VIP mode is answered by each ready endpoint, by TCP and UDP, from every node.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.Ingress, promise.IPModeVIP, promise.AllEvenly, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				s.Each(svc.WaysTo(vip, s.NodeClients()...), want)
			}
		},
	}
}
