package kit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Flows are TCP connections, or UDP flows of fixed 5-tuples, that last while the
// behaviour changes what is behind their address.
type Flows struct {
	spec   *Spec
	client Client
	target Target
	conns  *remote.Conns
	last   *remote.Results
}

// flowTries is how often each flow must be answered before it counts as settled.
const flowTries = 4

// Flows opens so many of them, of sockets that are connected. A UDP flow is there whatever becomes of
// its first datagram; of TCP connections each must stand.
func (s *Spec) Flows(c Client, t Target, n int) *Flows { return s.flows(c, t, n, false) }

// Datagrams opens so many UDP flows of sockets without a peer, as resolvers and servers have: each
// datagram says where it goes. On the wire they are as those of Flows.
func (s *Spec) Datagrams(c Client, t Target, n int) *Flows { return s.flows(c, t, n, true) }

func (s *Spec) flows(c Client, t Target, n int, unconnected bool) *Flows {
	s.asks(c, t)
	if s.planned != nil {
		conns := s.planned.open(c, t, n)
		return &Flows{s, c, t, conns, conns.First}
	}
	first := remote.Batch{Network: t.network, Target: t.to, Attempts: n, Unconnected: unconnected}
	if t.network == remote.UDP {
		first.Timeout = silence // may be what it meets
	}
	conns, err := c.probe.Open(s.ctx, first)
	s.must(err, "flows of %s to %s", c.at(), t)
	s.env.spent(c, t, conns.First)
	s.onEnd(func() error { return conns.Close(s.ctx) })
	s.attempts += n
	s.dialled(Way{c, t}, Want{}, conns.First, "")
	s.sound(c, t, conns.First)
	f := &Flows{s, c, t, conns, conns.First}
	if sum := conns.First.Summary(); t.network == remote.TCP && !sum.All(remote.OK) {
		s.tried(trial{client: c, to: t, n: n, stand: true, res: conns.First})
		s.Fail("flows of %s to %s: want connections that stand, but %s", c.at(), t, sum)
	}
	return f
}

// Unanswered demands that no flow has had an answer so far.
func (f *Flows) Unanswered() {
	if sum := f.last.Summary(); f.spec.planned == nil && sum.Class[remote.OK] > 0 {
		f.fail(nil, "want no answer yet, but %s", sum)
	}
}

// Reach demands that every flow is answered by one of the servers. While the
// dataplane may be late it is asked again, but not after it held once.
func (f *Flows) Reach(servers ...Client) { f.reach(0, servers) }

// ReachPort demands the same, at a port of the servers.
func (f *Flows) ReachPort(port uint16, servers ...Client) { f.reach(port, servers) }

func (f *Flows) reach(port uint16, servers []Client) {
	f.settle(servers, "flows to reach "+names(servers), func(_ int, r remote.Result) bool {
		return r.Class == remote.OK && slices.ContainsFunc(servers, func(c Client) bool { return c.Name == r.Name }) && (port == 0 || r.Dst.Port() == port)
	})
}

// Cease demands that no flow is answered any more, as Reach demands that each is.
func (f *Flows) Cease() {
	f.settle(nil, "flows that nobody answers", func(_ int, r remote.Result) bool { return r.Class != remote.OK })
}

// settle asks until every flow is answered rightly, by servers, and then so often that it is settled.
func (f *Flows) settle(servers []Client, want string, right func(int, remote.Result) bool) {
	f.spec.asks(f.client, f.target)
	if f.spec.planned != nil {
		return
	}
	held, timeout := 0, silence
	for held < flowTries {
		began := time.Now()
		f.ask(timeout)
		wrong := f.wrong(right)
		if wrong != "" {
			f.tried(servers)
			f.spec.unexpected(f.client, f.target, Want{text: want, servers: servers}, f.last)
		}
		switch {
		case wrong == "":
			if held == 0 {
				f.spec.delay = max(f.spec.delay, began.Sub(f.spec.at))
			}
			held++
			if len(servers) > 0 {
				timeout = 0 // nothing is late any more: as long as for any answer
			}
		case held > 0 || time.Since(f.spec.at) > f.spec.limit():
			f.fail(servers, "want %s, but %s", want, wrong)
		default: // flows of a client, which sends now and then, and not as fast as it can
			f.spec.must(kubewait.Pause(f.spec.ctx, f.spec.pace()), "wait to ask flows again")
		}
	}
}

// staying is how long flows are watched that are to stay: a dataplane that looks for stale ones
// does so when its rules are in, and takes a while.
const staying = 500 * time.Millisecond

// Stay is that of these alone.
func (f *Flows) Stay() { f.spec.Stay(f) }

// Stay demands that every flow is answered by the server it had before, at once, each time, and
// for a while.
func (s *Spec) Stay(all ...*Flows) {
	before, began := make([]*remote.Results, len(all)), time.Now()
	for i, f := range all {
		s.asks(f.client, f.target)
		before[i] = f.last
	}
	for tries := 1; ; tries++ {
		for i, f := range all {
			f.stays(before[i])
		}
		switch {
		case tries < flowTries:
		case s.planned != nil || time.Since(began) > staying:
			return
		default:
			s.must(kubewait.Pause(s.ctx, min(s.pace(), staying/5)), "wait to ask flows again")
		}
	}
}

// stays asks once.
func (f *Flows) stays(before *remote.Results) {
	f.ask(0)
	wrong := f.wrong(func(i int, r remote.Result) bool {
		return r.Class == remote.OK && r.Name == before.Attempts[i].Name && r.Dst == before.Attempts[i].Dst
	})
	if wrong != "" {
		f.fail(f.spec.env.servers(trial{res: before}), "want flows to stay where they were (%s), but %s", before.Summary(), wrong)
	}
}

func (f *Flows) ask(timeout time.Duration) {
	f.last = f.spec.Ask(f.client, f.target, f.conns, timeout, 16)
}

// wrong says in what the last answers are not as wanted; empty: in nothing.
func (f *Flows) wrong(right func(int, remote.Result) bool) string {
	for i, r := range f.last.Attempts {
		if !right(i, r) {
			return fmt.Sprintf("%s; one was %s", f.last.Summary(), r)
		}
	}
	return ""
}

// fail ends the behaviour for what the last answers were; the servers were to give them.
func (f *Flows) fail(servers []Client, format string, args ...any) {
	f.tried(servers)
	f.spec.Fail("flows of %s to %s: %s", f.client.at(), f.target, fmt.Sprintf(format, args...))
}

// tried notes what the last answers were; the servers were to give them.
func (f *Flows) tried(servers []Client) {
	f.spec.tried(trial{client: f.client, to: f.target, n: len(f.last.Attempts), servers: servers, res: f.last})
}

func names(clients []Client) string {
	var out []string
	for _, c := range clients {
		out = append(out, c.Name)
	}
	return strings.Join(out, ", ")
}
