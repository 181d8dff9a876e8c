package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowServiceRecreated() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-service-recreated", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow to a ClusterIP reaches the endpoint of the Service that has the address, when that is another one than before.",
		Promises: []promise.Promise{promise.Transported, promise.Synchronized, promise.UDP},
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true,
		Run: func(s *kit.Spec) {
			dns := kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))
			old, clients := s.Service(dns), []kit.Client{s.Nodes[3].B.Client, s.Nodes[3].Client}
			old.Endpoints(s.Nodes[0].A.Ready())
			ways := old.Ways(clients...)
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			reach := flow(s, ways)
			reach(s.Nodes[0].A)
			address := old.ClusterIP("dns").Addr().String()
			old.Delete()
			svc := s.Service(dns, func(o *corev1.Service) { o.Spec.ClusterIP = address })
			svc.Endpoints(s.Nodes[1].A.Ready())
			reach(s.Nodes[1].A)
		},
	}
}
