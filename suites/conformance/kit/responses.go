package kit

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// ServedAt wants the answers of these servers (all, if none is named) to come from a
// port of theirs.
func (w Want) ServedAt(port uint16, servers ...Client) Want {
	before := w.class
	w.text += fmt.Sprintf(" at port %d", port)
	w.class = func(r remote.Result) bool {
		concerned := len(servers) == 0
		for _, c := range servers {
			concerned = concerned || c.Name == r.Name
		}
		return before(r) && (r.Class != remote.OK || !concerned || r.Dst.Port() == port)
	}
	return w
}

// Attempts makes attempts of a kind that expectations do not know, and hands back
// what became of them. It does not judge: an Expect before it shows that the
// dataplane has followed.
func (s *Spec) Attempts(c Client, t Target, b remote.Batch) *remote.Results {
	s.asks(c, t)
	if s.planned != nil {
		return s.planned.any(c, t, b.Attempts)
	}
	b.Network, b.Target = t.network, t.to
	res, err := c.probe.Batch(s.ctx, b)
	s.must(err, "attempts of %s to %s", c.Name, t)
	s.attempts += len(res.Attempts)
	s.tried(trial{client: c, to: t, n: len(res.Attempts), res: res})
	s.dialled(Way{c, t}, Want{}, res, "")
	s.sound(c, t, res)
	return res
}

// All demands that each attempt was answered by one of the servers.
func (s *Spec) All(c Client, t Target, res *remote.Results, servers ...Client) {
	s.tried(trial{client: c, to: t, n: len(res.Attempts), servers: servers, res: res})
	s.sound(c, t, res)
	w := s.spread(Only(servers...))
	if wrong := w.wrong(res, c.addrs); wrong != "" {
		s.Fail("%s to %s: want %s, but %s", c.Name, t, w.text, wrong)
	}
}

// Spread makes n attempts, one connection or datagram each, and counts who answered. All of
// them must be answered by one of the servers, but a few datagrams, and each server must answer.
func (s *Spec) Spread(c Client, t Target, n int, servers ...Client) map[string]int {
	s.Expect(c, t, Only(servers...))
	res := s.attemptsToSpread(c, t, n)
	s.All(c, t, res, servers...)
	return res.Summary().Server
}

// Skip ends the behaviour: it cannot be looked at here, which is no pass.
func (s *Spec) Skip(format string, args ...any) {
	panic(outcome{result: ResultSkip, reason: fmt.Sprintf(format, args...)})
}

// ServeSCTP has pods serve SCTP at PodPort. Where the kernel has no SCTP, the
// behaviour is skipped.
func (s *Spec) ServeSCTP(pods ...*Pod) {
	if s.planned != nil {
		return
	}
	for _, p := range pods {
		err := p.probe.SetPort(s.ctx, remote.Port{Network: remote.SCTP, Port: PodPort, Mode: remote.Serving})
		if err != nil {
			s.Say("%v", err)
			s.Skip("the cluster lacks SCTP in the kernel")
		}
	}
}

// Open makes connections that stay until the behaviour ends; each must stand.
func (s *Spec) Open(c Client, t Target, b remote.Batch) *remote.Conns {
	s.asks(c, t)
	if s.planned != nil {
		return s.planned.open(c, t, b.Attempts)
	}
	b.Network, b.Target = t.network, t.to
	conns, err := c.probe.Open(s.ctx, b)
	s.must(err, "connections of %s to %s", c.Name, t)
	s.onEnd(func() error { return conns.Close(context.WithoutCancel(s.ctx)) })
	s.attempts += len(conns.First.Attempts)
	s.tried(trial{client: c, to: t, n: len(conns.First.Attempts), stand: true, res: conns.First})
	s.dialled(Way{c, t}, Want{text: "connections that stay"}, conns.First, notAll(conns.First))
	s.sound(c, t, conns.First)
	if sum := conns.First.Summary(); !sum.All(remote.OK) {
		s.Fail("connections of %s to %s: %s", c.Name, t, sum)
	}
	return conns
}

// Ask asks on connections of a client to a target, and hands back what became of it. It
// does not judge.
func (s *Spec) Ask(c Client, t Target, conns *remote.Conns, timeout time.Duration, payload int) *remote.Results {
	if s.planned != nil {
		return s.planned.ask(conns)
	}
	res, err := conns.Ask(s.ctx, timeout, payload)
	s.must(err, "ask on connections of %s to %s", c.Name, t)
	s.env.spent(c, t, res)
	s.attempts += len(res.Attempts)
	s.tried(trial{client: c, to: t, n: len(res.Attempts), res: res})
	s.dialled(Way{c, t}, Want{}, res, "")
	s.sound(c, t, res)
	return res
}

// NotFrom wants servers to see none of these addresses.
func (w Want) NotFrom(addrs ...netip.Addr) Want {
	w.source, w.sources = func(seen, _ netip.Addr) bool { return !slices.Contains(addrs, seen) }, fmt.Sprintf("none of %s", addrs)
	return w
}

// notAll says what attempts came to that were not all answered.
func notAll(res *remote.Results) string {
	if sum := res.Summary(); !sum.All(remote.OK) {
		return sum.String()
	}
	return ""
}
