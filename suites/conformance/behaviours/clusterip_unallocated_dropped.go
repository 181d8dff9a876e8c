package behaviours

import (
	"net/netip"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUnallocatedDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-unallocated-dropped", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "What a pod sends to an address of the Service range that no Service has (any more) is dropped: it is not refused, and leaves the node by no route.",
		Promises: []promise.Promise{promise.UndefinedPortsRefused},
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/README.md"},
		Needs:    []kit.Need{kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, pod, via := s.Service(), s.Nodes[0].A, s.Nodes[1]
			svc.Endpoints(via.A.Ready())
			s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Pods(via.A))
			svc.Delete()
			// A route that ends nowhere would be silent too: so both addresses are led to a node
			// that answers, and the one out of the range is the control.
			gone, control := svc.ClusterIP().Addr(), s.FreeAddr()
			s.Lead(s.Nodes[0], via, gone)
			s.Lead(s.Nodes[0], via, control)
			s.Expect(pod.Client, kit.TCP(netip.AddrPortFrom(control, kit.HostPort)), kit.Only(via.Client))
			s.Expect(pod.Client, kit.TCP(netip.AddrPortFrom(gone, kit.HostPort)), kit.Dropped())
		},
	}
}
