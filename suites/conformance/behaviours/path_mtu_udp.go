package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func pathMTUUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "path-mtu-udp", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "Datagrams of 1400 bytes of a pod pass through a ClusterIP where the path to the endpoint takes smaller packets than the client's link, once the first have told the client.",
		Promises: []promise.Promise{promise.ErrorsTranslated, promise.LargeDatagrams},
		Source:   []string{"https://www.rfc-editor.org/rfc/rfc5508"},
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, n, server := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.Nodes[0], s.Nodes[1].A
			svc.Endpoints(server.Ready())
			ways := svc.Ways(n.A.Client)
			s.Each(ways, kit.Pods(server))
			s.Narrow(n, server.Addr(s.Family), s.Nodes[1].Addr(s.Family))
			s.Large(ways, kit.Way{From: n.B.Client, To: kit.UDP(kit.At(server, s.Family))}, kit.LargeDatagram, server.Client)
		},
	}
}
