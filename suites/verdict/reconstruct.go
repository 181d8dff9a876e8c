package verdict

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// share is what becomes of the part of an attempt that goes to one node: as states have
// it, and at least and at most, where a poll leaves two states open.
type share struct {
	node       string // empty: the LB had no server
	part       float64
	lost, slow bool
	could      outcomes
}

// outcomes that states leave open.
type outcomes struct{ good, lost, slow bool }

// shares are one attempt's, over the servers that were UP.
func shares(tl *timeline.Timeline, t int64, s Settings) []share {
	up := tl.Up(t)
	if len(up) == 0 {
		down := outcomes{lost: true}
		if len(wronglyDown(tl, t, s)) > 0 { // that there was no server is not explained by itself
			down = outcomes{good: true}
		}
		return []share{{part: 1, lost: true, could: down}}
	}
	all := make([]share, 0, len(up))
	for _, node := range up {
		sh := share{node: node, part: 1 / float64(len(up)), could: could(tl, node, t, s)}
		if tl.Dead(node, t) {
			sh.slow = rescued(tl, node, t, s)
			sh.lost = !sh.slow
		}
		all = append(all, sh)
	}
	return all
}

// could is what may have become of an attempt at a node, given states that are known to the
// distance of two polls.
func could(tl *timeline.Timeline, node string, t int64, s Settings) outcomes {
	var o outcomes
	for _, state := range tl.Changing(record.KindNodePort, node, t) {
		if state == "" || state == timeline.Forwards {
			o.good = true
			continue
		}
		may, must := false, false // a later SYN may have, or must have met a node that forwards
		for _, after := range redials(timeline.Silent(state), s) {
			if after >= s.Timeout {
				continue
			}
			then := tl.Changing(record.KindNodePort, node, t+after.Nanoseconds())
			may = may || slices.Contains(then, timeline.Forwards)
			must = must || len(then) == 1 && then[0] == timeline.Forwards
		}
		o.slow, o.lost = o.slow || may, o.lost || !must
	}
	return o
}

// reconstruct sums, over the attempts that were sent, the probability that the
// load balancer gave the attempt to a server that does not forward. It looks at
// states only, never at what became of the attempt.
func reconstruct(out []outcome, tl *timeline.Timeline, s Settings) Reconstruction {
	r := Reconstruction{Possible: !s.Cluster && len(tl.Known(record.KindServer)) > 0 && len(tl.Known(record.KindNodePort)) > 0}
	if !r.Possible {
		return r
	}
	cells := ledger{}
	measured := 0
	for _, o := range out {
		if o.class.Harness() {
			continue
		}
		for _, sh := range shares(tl, o.Start, s) {
			cells.at(sh.node, o.Start).expect(sh)
			switch {
			case sh.slow:
				r.Slow += sh.part
			case sh.lost && sh.node == "":
				r.NoServer += sh.part
			case sh.lost:
				r.DeadNode += sh.part
			}
		}
		switch {
		case o.class.Lost():
			cells.at(o.node, o.Start).lost.measured++
			r.Residual++
			measured++
		case o.slow():
			cells.at(o.node, o.Start).slow.measured++
			measured++
		}
	}
	r.Lost = r.NoServer + r.DeadNode
	r.Residual -= r.Lost
	r.Unexplained = cells.unexplained()
	r.Within = r.Unexplained <= max(s.Limits.ResidualAbs, s.Limits.ResidualPart*float64(measured))
	return r
}

// ledger holds a cell for every node and second.
type ledger map[cellKey]*cell

type cellKey struct {
	node   string
	second int64
}

type cell struct {
	lost, slow count1
	turn       bool // more than one server took turns
}

// count1 is one count: as measured, and what states allow.
type count1 struct {
	measured    int
	least, most float64
}

func (l ledger) at(node string, t int64) *cell {
	k := cellKey{node, t / int64(time.Second)}
	if l[k] == nil {
		l[k] = &cell{}
	}
	return l[k]
}

func (c *cell) expect(sh share) {
	c.turn = c.turn || sh.part < 1
	if sh.could.lost {
		c.lost.most += sh.part
		if !sh.could.good && !sh.could.slow {
			c.lost.least += sh.part
		}
	}
	if sh.could.slow {
		c.slow.most += sh.part
		if !sh.could.good && !sh.could.lost {
			c.slow.least += sh.part
		}
	}
}

// unexplained is the sum of what lies outside of what states allow. Servers that take turns
// have one attempt more or less in any stretch of time.
func (l ledger) unexplained() float64 {
	sum := 0.0
	for _, c := range l {
		turn := 0.0
		if c.turn {
			turn = 1
		}
		for _, n := range []count1{c.lost, c.slow} {
			sum += max(0, float64(n.measured)-n.most-turn, n.least-turn-float64(n.measured))
		}
	}
	return sum
}

// rescued reports whether a later try of the same connection, a resent SYN or
// a redial of the same server, would have found the node forwarding again
// within the client's patience.
func rescued(tl *timeline.Timeline, node string, t int64, s Settings) bool {
	for _, after := range redials(tl.Drops(node, t), s) {
		if after < s.Timeout && !tl.Dead(node, t+after.Nanoseconds()) {
			return true
		}
	}
	return false
}

// redials are the times after a connection's first SYN at which the next ones
// go out. HAProxy redials the same server at once after a timeout, and a second
// after a refusal (configuration manual, "retries").
func redials(silent bool, s Settings) []time.Duration {
	var all []time.Duration
	if !silent {
		for i := range s.Retries {
			all = append(all, time.Duration(i+1)*time.Second)
		}
		return all
	}
	limit := s.Connect
	if limit <= 0 {
		limit = s.Timeout
	}
	for i := range s.Retries + 1 {
		base := time.Duration(i) * limit
		for _, syn := range append([]time.Duration{0}, s.SYN.Resends()...) {
			if syn < limit {
				all = append(all, base+syn)
			}
		}
	}
	return all
}

// Resends are the times after a SYN at which a kernel sends it again: so many waits of a
// second, then each twice the last (ip-sysctl.rst, tcp_syn_linear_timeouts). The waits of
// kernels before 6.5 begin to double at once.
func (s SYNs) Resends() []time.Duration {
	if s == (SYNs{}) {
		s = SYNs{Linear: 4, Retries: 6}
	}
	var all []time.Duration
	at, wait := time.Duration(0), time.Second
	for n := range s.Retries {
		at += wait
		all = append(all, at)
		if n >= s.Linear {
			wait *= 2
		}
	}
	return all
}
