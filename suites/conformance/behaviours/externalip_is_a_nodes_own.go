package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPIsANodesOwn() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-is-a-nodes-own", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "An external IP that is the address of a node is served there at the Service's ports, by TCP and UDP, and leaves the node's other ports to it.",
		Promises: []promise.Promise{promise.ExternalIPs, promise.ExternalIPsRouted},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			n := s.Nodes
			addr := n[0].Addr(s.Family)
			svc := s.Service(kit.ExternalIPs(addr), kit.Both, func(o *corev1.Service) { o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 7411, 7412 })
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			clients := []kit.Client{s.Outside(), n[0].B.Client, n[0].Client, n[3].B.Client, n[3].Client}
			s.Each(svc.WaysTo(addr, clients...), kit.Pods(n[0].A, n[1].A))
			for _, c := range clients {
				s.Expect(c, kit.TCP(n[0].At(s.Family)), kit.Only(n[0].Client))
			}
		},
	}
}
