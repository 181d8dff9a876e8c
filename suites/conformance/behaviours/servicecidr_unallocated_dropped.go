package behaviours

import (
	"net/netip"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceCIDRUnallocatedDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "servicecidr-unallocated-dropped", Level: kit.Should, Profile: kit.ProfileServiceCIDR,
		Says:     "What a pod sends to an address of a range is dropped from when the range is added for ClusterIPs until it is taken away.",
		Promises: []promise.Promise{promise.UndefinedPortsRefused, promise.ServiceCIDR},
		Source:   []string{"KEP-1880"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedServices},
		Serial:   true,
		Run: func(s *kit.Spec) {
			further, via := s.FurtherRange(), s.Nodes[1]
			at := kit.Within(further, 1)
			s.Lead(s.Nodes[0], via, at) // without the range it answers
			pod, target := s.Nodes[0].A, kit.TCP(netip.AddrPortFrom(at, kit.HostPort))
			s.Expect(pod.Client, target, kit.Only(via.Client))
			added := s.AddServiceCIDR(further)
			s.Expect(pod.Client, target, kit.Dropped())
			added.Delete()
			s.Expect(pod.Client, target, kit.Only(via.Client))
		},
	}
}
