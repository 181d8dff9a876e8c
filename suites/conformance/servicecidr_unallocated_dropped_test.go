package conformance

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

var _ = behaviour(kit.Behaviour{
	ID: "servicecidr-unallocated-dropped", Level: kit.Should, Profile: kit.ProfileCore,
	Says:   "What a pod sends to an address of a range is dropped from when the range is added for ClusterIPs until it is taken away.",
	Source: []string{"KEP-1880", "KEP-3866"},
	Needs:  []kit.Need{kit.NeedNodes, kit.NeedServices},
	Serial: true,
}, func(s *kit.Spec) {
	// A node gets an address of the range, and others a route: without the range it
	// answers.
	further := s.FurtherRange()
	at, via, bits := further.Addr().Next(), s.Nodes[1], "/32"
	if s.Family == corev1.IPv6Protocol {
		bits = "/128"
	}
	s.ExecUntilEnd(via, []string{"ip", "addr", "add", at.String() + bits, "dev", "lo"}, []string{"ip", "addr", "del", at.String() + bits, "dev", "lo"})
	route := []string{at.String() + bits, "via", via.Addr(s.Family).String()}
	s.ExecUntilEnd(s.Nodes[0], append([]string{"ip", "route", "add"}, route...), append([]string{"ip", "route", "del"}, route...))
	pod, target := s.Nodes[0].A, kit.TCP(netip.AddrPortFrom(at, kit.HostPort))
	s.Expect(pod.Client, target, kit.Only(via.Client))
	added := s.AddServiceCIDR(further)
	s.Expect(pod.Client, target, kit.Dropped())
	added.Delete()
	s.Expect(pod.Client, target, kit.Only(via.Client))
})
