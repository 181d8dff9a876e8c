package kit

import (
	"context"
	"net/netip"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Lead gives a node an address, where it serves HostPort over TCP, and another node a
// route to it there, until the behaviour ends: what pods of the latter send to it is
// answered, unless their node keeps it. It needs NeedNodes.
func (s *Spec) Lead(from, to *Node, a netip.Addr) {
	s.give(to, a)
	if s.planned != nil {
		return
	}
	port := remote.Port{Network: remote.TCP, Port: HostPort, Mode: remote.Serving, Addr: a}
	s.must(to.probe.SetPort(s.ctx, port), "have %s serve at %s", to.Name, a)
	s.onEnd(func() error {
		port.Mode = remote.Closed
		return to.probe.SetPort(context.WithoutCancel(s.ctx), port)
	})
	route := []string{Alone(a), "via", to.Addr(s.Family).String()}
	s.ExecUntilEnd(from, append([]string{"ip", "route", "add"}, route...), append([]string{"ip", "route", "del"}, route...))
}
