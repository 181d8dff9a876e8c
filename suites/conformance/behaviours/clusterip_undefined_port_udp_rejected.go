package behaviours

import (
	"net/netip"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUndefinedPortUDPRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-undefined-port-udp-rejected", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A datagram to a port of a ClusterIP that the Service does not have, or has for TCP alone, is refused, to a pod and to a node.",
		Promises: []promise.Promise{promise.UndefinedPortsRefused},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/README.md"},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(), s.Nodes[0].A
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			s.Expect(pod.Client, kit.UDP(svc.ClusterIP()), kit.Rejected())
			s.Expect(pod.Client, kit.UDP(netip.AddrPortFrom(svc.ClusterIP().Addr(), 81)), kit.Rejected())
			s.Expect(pod.Client, kit.UDP(netip.AddrPortFrom(svc.ClusterIP().Addr(), kit.PodPort)), kit.Rejected())
			s.Expect(s.Nodes[0].Client, kit.UDP(netip.AddrPortFrom(svc.ClusterIP().Addr(), 81)), kit.Rejected())
		},
	}
}
