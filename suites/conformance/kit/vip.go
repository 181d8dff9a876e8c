package kit

import (
	"net/netip"
	"strings"
)

// Owned puts an address on a node's loopback link until the behaviour ends, as load
// balancers do that hand packets to a node as they came, and makes sure that what the
// node itself sends there has it as its source too.
func (s *Spec) Owned(n *Node, a netip.Addr) {
	s.give(n, a)
	s.changed()
	if s.planned != nil {
		return
	}
	family := map[bool]string{false: "-4", true: "-6"}[a.Is6()]
	route := s.Exec(n, "ip", family, "-o", "route", "get", a.String())
	if !strings.Contains(route+" ", " src "+a.String()+" ") {
		s.Inconclusive("node %s has %s, but does not send from it what it sends to it: %s", n.Name, a, route)
	}
}

// give puts an address on a node's loopback link until the behaviour ends. It is usable
// at once.
func (s *Spec) give(n *Node, a netip.Addr) {
	put := func(verb string) []string { return []string{"ip", "address", verb, Alone(a), "dev", "lo"} }
	add := put("add")
	if a.Is6() {
		add = append(add, "nodad")
	}
	s.ExecUntilEnd(n, add, put("del"))
}
