package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func addressesChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "addresses-changed-while-away", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "What changed while the agents were away is followed when they are back, at the addresses of load balancers too, by TCP and UDP: one that was exchanged, one whose Service is gone, a port that was taken away and other endpoints.",
		Promises: []promise.Promise{promise.Synchronized, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, before := atVIP(s)
			gone, also := atVIP(s)
			after, a, b := s.FreeAddr(), s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready())
			gone.Endpoints(a.Ready())
			clients := []kit.Client{s.Nodes[2].B.Client, s.Nodes[3].Client}
			silent := append(svc.WaysTo(before, clients...), gone.WaysTo(also, clients...)...)
			s.Each(append(silent, svc.Ways(clients...)...), kit.Pods(a))
			udp := svc.At(after, "dns")
			s.WithoutAgents(func() {
				gone.Delete()
				svc.Ingress(corev1.LoadBalancerIPModeVIP, after)
				svc.Update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
				svc.Endpoints(b.Ready())
			})
			s.Each(append(svc.WaysTo(after, clients...), svc.Ways(clients...)...), kit.Pods(b))
			s.Each(silent, kit.Unreachable())
			for _, c := range clients {
				s.Expect(c, kit.UDP(udp), kit.Unreachable())
			}
		},
	}
}
