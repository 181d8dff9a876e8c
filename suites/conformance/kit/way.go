package kit

import "net/netip"

// Lead gives a node an address and another node a route to it there, until the behaviour
// ends: what pods of the latter send to it is answered, unless their node keeps it. It
// needs NeedNodes.
func (s *Spec) Lead(from, to *Node, a netip.Addr) {
	s.ExecUntilEnd(to, []string{"ip", "addr", "add", Alone(a), "dev", "lo"}, []string{"ip", "addr", "del", Alone(a), "dev", "lo"})
	route := []string{Alone(a), "via", to.Addr(s.Family).String()}
	s.ExecUntilEnd(from, append([]string{"ip", "route", "add"}, route...), append([]string{"ip", "route", "del"}, route...))
}
