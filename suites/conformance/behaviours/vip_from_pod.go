package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-from-pod", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A pod that dials the address of a load balancer in VIP mode is answered by each ready endpoint, by TCP and UDP, without leaving its node first, as long as there is the Service.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.Ingress, promise.IPModeVIP, promise.UDP, promise.TCP, promise.AnyBackend, promise.NamedPorts, promise.Synchronized},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			for _, mode := range []corev1.LoadBalancerIPMode{"", corev1.LoadBalancerIPModeVIP} {
				svc.Ingress(mode, vip)
				for _, beside := range s.Beside() {
					want := svc.Kinds(beside...)
					s.Each(svc.WaysTo(vip, s.PodClients()...), want)
				}
			}
			svc.Delete()
			s.Each(svc.WaysTo(vip, s.PodClients()...), kit.Unreachable())
		},
	}
}
