package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func externalIPNoEndpointsRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-no-endpoints-rejected", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:   "Connections to an externalIP are rejected while the Service has no endpoint, also under externalTrafficPolicy=Local.",
		Source: []string{"https://kubernetes.io/docs/reference/networking/virtual-ips/"},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr))
			client, to := s.Nodes[1].B.Client, kit.TCP(svc.At(addr))
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(client, to, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Expect(client, to, kit.Rejected())
		},
	}
}
