package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalTerminatingUsed() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-terminating-used", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local a node whose endpoints all terminate and still serve goes on with them at the address of a load balancer, of every kind, with the client's address, by TCP and UDP, whether others are ready elsewhere or not.",
		Promises: []promise.Promise{promise.SomeTerminatingLocal, promise.DrainLocal, promise.ExternalLocal},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			hosts := s.HostsBeyond(s.Nodes[:3]...)
			for _, elsewhere := range [][]kit.Endpoint{nil, {s.Nodes[3].A.Ready()}} {
				svc.Ending(append(elsewhere, s.Nodes[0].B.Ending())...)
				for i, server := range s.OfKinds() {
					s.Each(svc.WaysTo(vip, hosts[i]), kit.Only(server).FromItself())
				}
			}
		},
	}
}
