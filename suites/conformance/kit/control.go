package kit

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// trial is what a Spec attempted last: what a failure is about, what is kept of it,
// and what the control after it repeats without a Service.
type trial struct {
	client  Client
	to      Target
	path    string // asked for by HTTP; empty: another exchange
	n       int
	servers []Client        // those that were to answer
	stand   bool            // connections were to, to whatever server
	beside  bool            // controls went on beside it, and say whether the host was at fault
	res     *remote.Results // nil: of HTTP
	said    string          // what HTTP came to
	late    time.Duration   // how much longer than it may HTTP took
}

// heldUp is how late a client is with the end of an attempt for whom the host stood still: one that is merely
// busy makes nobody so late, and what is lost there is a loss.
const heldUp = remote.DefaultTimeout / 3

// heldUp tells whether all that a trial lacks are answers whose time was over while the client itself was held
// up: its host, and so the server, too, may have been, for as long as an answer may take.
func (t trial) heldUp() bool {
	if t.res == nil {
		return t.late > heldUp
	}
	held := false
	for _, r := range t.res.Attempts {
		switch {
		case r.Class == remote.Timeout && r.Late > heldUp:
			held = true
		case r.Class != remote.OK || !t.stand && !slices.ContainsFunc(t.servers, func(c Client) bool { return c.Name == r.Name }):
			return false
		}
	}
	return held && !t.beside && (t.stand || len(t.servers) > 0)
}

// tried notes what was attempted.
func (s *Spec) tried(t trial) {
	s.last = t
	s.datagrams = s.datagrams || t.to.network == remote.UDP
}

// controlNodes are the control connections of every behaviour, before and after, and then
// datagrams too if it sent any: from outside to each node's own probe, past every
// Service. The conclusion is worth nothing where they fail.
func (s *Spec) controlNodes() {
	networks := []remote.Network{remote.TCP}
	if s.datagrams {
		networks = append(networks, remote.UDP)
	}
	for _, n := range s.Nodes {
		for _, network := range networks {
			s.controlled(s.env.outside, n.Client, Target{network, netip.AddrPortFrom(n.Addr(s.Family), HostPort)}, nodeTries)
		}
	}
}

// nodeTries go to each node, controlTries at least each way of a failure.
const (
	nodeTries    = 2
	controlTries = 5
)

// control makes sure that what failed is not the network or a probe: past every
// Service, in the same protocol and as many, attempts reach what the failed ones were
// about.
func (s *Spec) control() {
	s.controlNodes()
	for _, w := range s.env.ways(s.last) {
		s.controlled(w.from, w.to, w.at, max(controlTries, s.last.n))
	}
}

func (s *Spec) controlled(from, to Client, at Target, n int) {
	res, err := from.probe.Batch(s.ctx, remote.Batch{Network: at.network, Target: at.to, Attempts: n, Concurrency: min(n, 16)})
	s.must(err, "control attempts of %s to %s", from.at(), at)
	s.env.count(res)
	if sum := res.Summary(); !sum.All(remote.OK) {
		s.Inconclusive("control: %s does not reach %s (%s) without a Service either: %s", from.at(), to.Name, at, sum)
	}
}

// way leads to a probe without a Service.
type way struct {
	from, to Client
	at       Target
}

// ways are those that a trial took, apart from what the dataplane does: to the node
// that it arrived at, and to the servers that answered or were to. Pods cannot be
// reached from outside on every cluster, so there the servers are reached from the
// node. Where no server is involved the client reaches the nodes.
func (e *Env) ways(t trial) []way {
	if t.client.probe == nil {
		return nil // nothing was attempted
	}
	servers := e.servers(t)
	arrivals := e.arrivals(t, servers)
	var out []way
	add := func(from, to Client) {
		if at := e.direct(t.to, to); at.to.IsValid() {
			out = append(out, way{from, to, at})
		}
	}
	from := []Client{t.client}
	if t.client.Name == Outside {
		from = nil
	}
	for _, n := range arrivals {
		add(t.client, n.Client)
		if t.client.Name == Outside {
			from = append(from, n.Client)
		}
	}
	for _, c := range from {
		for _, server := range servers {
			add(c, server)
		}
	}
	return out
}

// arrivals are the nodes that a trial's packets come to first.
func (e *Env) arrivals(t trial, servers []Client) []*Node {
	at := slices.IndexFunc(e.nodes, func(n *Node) bool { return n.Addr(t.to.family()) == t.to.to.Addr().Unmap() })
	switch {
	case t.client.router != nil:
		return []*Node{t.client.router}
	case at >= 0:
		return e.nodes[at : at+1]
	case t.client.Name == Outside || len(servers) == 0:
		return e.nodes
	}
	return nil
}

// servers are those that were to answer a trial, and others that did.
func (e *Env) servers(t trial) []Client {
	out := slices.Clone(t.servers)
	if t.res == nil {
		return out
	}
	for _, n := range e.nodes {
		for _, c := range n.clients() {
			named := func(o Client) bool { return o.Name == c.Name }
			answered := func(r remote.Result) bool { return r.Class == remote.OK && r.Name == c.Name }
			if !slices.ContainsFunc(out, named) && slices.ContainsFunc(t.res.Attempts, answered) {
				out = append(out, c)
			}
		}
	}
	return out
}

// direct is where a probe itself serves the protocol of a target, in its family;
// those of nodes serve no SCTP.
func (e *Env) direct(t Target, to Client) Target {
	port, network := uint16(PodPort), t.network
	if e.isNode(to) {
		port = HostPort
		if network == remote.SCTP {
			network = remote.TCP
		}
	}
	a := to.Addr(t.family())
	return Target{network, netip.AddrPortFrom(a, port)}
}

func (t Target) family() corev1.IPFamily { return familyOf(t.to.Addr().Unmap()) }
