package behaviours

import (
	"net/netip"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUndefinedPortRejected() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-undefined-port-rejected", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A connection to a port of a ClusterIP that the Service does not have is refused.",
		Promises: []promise.Promise{promise.UndefinedPortsRefused},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/README.md"},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(), s.Nodes[0].A
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			for _, number := range []uint16{81, kit.PodPort} { // the endpoint's own, too
				other := netip.AddrPortFrom(svc.ClusterIP().Addr(), number)
				s.Expect(pod.Client, kit.TCP(other), kit.Rejected())
				s.Expect(s.Nodes[0].Client, kit.TCP(other), kit.Rejected())
			}
		},
	}
}
