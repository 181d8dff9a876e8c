package verdict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// classifier is Classify, or in tests a broken one.
type classifier func(record.Attempt, time.Duration) Class

// outcome is one attempt with everything known about it.
type outcome struct {
	record.Attempt
	class Class
	conn  *record.Conn // nil: not in the LB's log
	node  string       // LB target; empty: none or not known
	cause Cause        // of a loss
}

// noServer is HAProxy's name for "no server was up" (configuration manual, 8.5).
const noServer = "<NOSRV>"

// Timeouts at which Sensitivity relabels the attempts, in seconds.
func timeouts() []time.Duration {
	return []time.Duration{500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second}
}

// Judge gives the verdict on one rollout.
func Judge(in Input) Rollout { return judge(in, Classify) }

func judge(in Input, classify classifier) Rollout {
	s := in.Settings
	if s.Limits == (Limits{}) {
		s.Limits = DefaultLimits()
	}
	events := ofService(in.Events, s.LB)
	tl := newTimeline(events)
	out := join(in.Attempts, in.Conns, s)
	label(out, s, classify)
	locate(out, tl)
	explain(out, tl)

	origin, known := findOrigin(tl, s, out)
	rel := func(t int64) float64 { return seconds(t - origin) }
	r := Rollout{Number: s.Rollout, Classes: map[Class]int{}, Causes: map[Cause]int{}}
	count(&r, out)
	r.NodeWindows, r.Outages = windows(out, s, tl, rel)
	for _, w := range r.NodeWindows {
		r.LongestWindow = max(r.LongestWindow, w.Inner())
	}
	for _, w := range r.Outages {
		r.LongestOutage = max(r.LongestOutage, w.Inner())
	}
	r.Reconstruction = reconstruct(out, tl, s)
	r.Reconstruction.compare(r.Lost, s.Limits)
	r.Sensitivity = sensitivity(out, s, classify)
	r.Observed = observe(tl, events, origin, known)
	r.Series = series(out, events, s.Limits.Samples, rel)
	selfCheck(&r, in, s, out, classify)
	if !known {
		r.Reasons = append(r.Reasons, "no pod was deleted while this was recorded")
	}
	r.Valid = len(r.Reasons) == 0
	return r
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// ofService leaves out what other Services' load balancers did.
func ofService(events []record.Event, lb string) []record.Event {
	out := make([]record.Event, 0, len(events))
	for _, e := range events {
		if lb == "" || e.LB == "" || e.LB == lb {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b record.Event) int { return cmp.Compare(changedAt(a), changedAt(b)) })
	return out
}

func label(out []outcome, s Settings, classify classifier) {
	for i := range out {
		out[i].class = labelOne(out[i], s, s.Timeout, classify)
	}
}

// labelOne adds to the classifier what only the LB's log shows: under
// eTP=Local the node that answers is the node the LB chose.
func labelOne(o outcome, s Settings, timeout time.Duration, classify classifier) Class {
	c := classify(o.Attempt, timeout)
	if s.Local && c.Success() && o.conn != nil && o.Node != "" && o.conn.Server != o.Node {
		return WrongBackend
	}
	return c
}

// locate names each attempt's LB target: from the LB's log, else from the
// answer, else, for a loss, where only one server can have been it.
func locate(out []outcome, tl timeline) {
	for i := range out {
		o := &out[i]
		switch {
		case o.conn != nil && o.conn.Server != noServer:
			o.node = o.conn.Server
		case o.conn != nil:
		case o.Node != "":
			o.node = o.Node
		case o.class.Lost():
			o.node = onlyCandidate(tl, o.Start)
		}
	}
}

func onlyCandidate(tl timeline, t int64) string {
	up := tl.up(t)
	if len(up) == 1 {
		return up[0]
	}
	var dead []string
	for _, n := range up {
		if tl.dead(n, t) {
			dead = append(dead, n)
		}
	}
	if len(dead) == 1 {
		return dead[0]
	}
	return ""
}

func count(r *Rollout, out []outcome) {
	for _, o := range out {
		r.Classes[o.class]++
		if o.class.Harness() {
			continue
		}
		r.Sent++
		switch {
		case o.class.Lost():
			r.Lost++
			r.Causes[o.cause]++
		case o.class.Slow():
			r.Slow++
		}
		if o.class.Success() && o.Terminating {
			r.FromTerminating++
		}
	}
	var took []float64
	for _, o := range out {
		if o.class.Success() {
			took = append(took, seconds(o.End-o.Start))
		}
	}
	r.Latency = quantiles(took)
}

// quantiles takes nearest ranks.
func quantiles(v []float64) Quantiles {
	if len(v) == 0 {
		return Quantiles{}
	}
	v = slices.Sorted(slices.Values(v))
	rank := func(p float64) float64 { return v[int(math.Ceil(p*float64(len(v))))-1] }
	return Quantiles{N: len(v), P50: rank(0.50), P90: rank(0.90), P99: rank(0.99), Max: v[len(v)-1]}
}

func sensitivity(out []outcome, s Settings, classify classifier) []AtTimeout {
	var all []AtTimeout
	for _, t := range timeouts() {
		at := AtTimeout{Timeout: t.Seconds()}
		for _, o := range out {
			c := labelOne(o, s, t, classify)
			switch {
			case c.Lost():
				at.Lost++
			case c.Slow():
				at.Slow++
			}
			if o.Failure == record.FailTimeout && o.End-o.Start < t.Nanoseconds() {
				at.Censored++
			}
		}
		all = append(all, at)
	}
	return all
}

// findOrigin is the first deletion of a pod; else what the settings say; else
// the first attempt, and not known.
func findOrigin(tl timeline, s Settings, out []outcome) (origin int64, known bool) {
	switch {
	case tl.deleted != "":
		return tl.origin, true
	case s.Origin != 0:
		return s.Origin, true
	case len(out) > 0:
		return out[0].Intended, false
	}
	return 0, false
}
