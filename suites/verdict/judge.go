package verdict

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// classifier is Classify, or in tests a broken one.
type classifier func(record.Attempt, time.Duration) Class

// outcome is one attempt with everything known about it.
type outcome struct {
	record.Attempt
	class Class
	conn  *record.Conn // nil: not in the LB's log
	node  string       // LB target; empty: none or not known
	cause Cause        // of a loss or a slow answer
}

// slow is an answer that took long for other reasons than the harness's.
func (o outcome) slow() bool { return o.class.Slow() && o.cause != CauseHarness }

// touched by a disturbance: lost or slow.
func (o outcome) touched() bool { return o.class.Lost() || o.slow() }

// MayBeDataplane reports whether a slow answer may be a dataplane's doing: balancer, pod and host
// can be slow by themselves.
func MayBeDataplane(c Cause) bool {
	return c.Hop() == HopNode || c.Hop() == HopServer || c.Hop() == HopUnknown
}

// prompt is an answer that nothing was wrong with.
func (o outcome) prompt() bool { return o.class.Success() && !o.class.Slow() }

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
	events := ofService(in.Events, s)
	tl := timeline.New(events)
	out := join(in.Attempts, in.Conns, s)
	label(out, s, tl, classify)
	locate(out, tl, s)
	host := hostMoments(in.Control, s, classify)
	explain(out, tl, host, s, newTrails(in, s))

	if s.Starts == (timeline.Start{}) {
		s.Starts = timeline.PodDeleted()
	}
	origin, known := findOrigin(tl, s, out)
	rel := func(t int64) float64 { return seconds(t - origin) }
	r := Rollout{Number: s.Rollout, Classes: map[Class]int{}, Causes: map[Cause]int{}, SlowCauses: map[Cause]int{}}
	count(&r, out)
	for _, o := range out {
		switch {
		case !o.sound(host, s):
		case o.class.Lost():
			r.LostSound++
		case o.slow() && MayBeDataplane(o.cause):
			r.SlowSound++
		}
	}
	r.Excepted = except(out, tl, host, s)
	r.NodeWindows, r.Outages = windows(out, s, tl, rel)
	for _, w := range r.NodeWindows {
		r.LongestWindow = max(r.LongestWindow, w.Inner())
	}
	for _, w := range r.Outages {
		r.LongestOutage = max(r.LongestOutage, w.Inner())
	}
	r.Reconstruction, r.Second = reconstruct(out, tl, s), second(out, events, s)
	r.Sensitivity = sensitivity(out, s, tl, classify)
	r.Transitions = transitions(out, tl, s, r.Outages, rel)
	if s.Starts == timeline.PodDeleted() {
		r.Observed = observe(tl, events, origin, known)
	}
	r.Series = series(out, events, s.Limits.Samples, rel)
	selfCheck(&r, in, s, out, classify)
	r.Warnings = append(r.Warnings, unwell(events)...)
	for _, said := range []string{oneSource(out), unserved(out, tl, s)} {
		if said != "" {
			r.Warnings = append(r.Warnings, said)
		}
	}
	if !known {
		r.Reasons = append(r.Reasons, nothingBegan(s.Starts))
	}
	for _, e := range tl.Starts(timeline.Start{Kind: record.KindAct, State: record.ActBrokenOff}) {
		r.Reasons = append(r.Reasons, "it did not come to its end: "+e.Detail)
	}
	r.Valid = len(r.Reasons) == 0
	return r
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// ofService leaves out what other Services' load balancers did, and what is of the other
// IP family.
func ofService(events []record.Event, s Settings) []record.Event {
	out := make([]record.Event, 0, len(events))
	for _, e := range events {
		if (s.LB == "" || e.LB == "" || e.LB == s.LB) && (s.Family == "" || e.Family == "" || e.Family == s.Family) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b record.Event) int { return cmp.Compare(timeline.ChangedAt(a), timeline.ChangedAt(b)) })
	return out
}

func label(out []outcome, s Settings, tl *timeline.Timeline, classify classifier) {
	for i := range out {
		out[i].class = labelOne(out[i], s, tl, s.Timeout, classify)
	}
}

// labelOne adds to the classifier what one attempt alone does not show: who answers is a
// pod of the workload, and under eTP=Local on the node that the LB chose.
func labelOne(o outcome, s Settings, tl *timeline.Timeline, timeout time.Duration, classify classifier) Class {
	c := classify(o.Attempt, timeout)
	if c.Success() && o.Pod != "" && !tl.Workload(o.Pod, o.UID) {
		return WrongWorkload
	}
	if s.Local && c.Success() && o.conn != nil && o.Node != "" && o.conn.Server != o.Node {
		return WrongBackend
	}
	return c
}

// locate names each attempt's LB target: from the LB's log, else from the
// answer, else, for a loss, where only one server can have been it. What did not get past
// the LB has none.
func locate(out []outcome, tl *timeline.Timeline, s Settings) {
	for i := range out {
		o := &out[i]
		switch {
		case o.conn != nil && o.conn.Server != noServer:
			o.node = o.conn.Server
		case o.conn != nil:
		case o.Node != "":
			o.node = o.Node
		case s.LB != "" && o.Connected == 0:
		case o.class.Lost():
			o.node = onlyCandidate(tl, o.Start)
		}
	}
}

func onlyCandidate(tl *timeline.Timeline, t int64) string {
	up := tl.Up(t)
	if len(up) == 1 {
		return up[0]
	}
	var dead []string
	for _, n := range up {
		if tl.Dead(n, t) {
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
			r.SlowCauses[o.cause]++
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

func sensitivity(out []outcome, s Settings, tl *timeline.Timeline, classify classifier) []AtTimeout {
	var all []AtTimeout
	for _, t := range timeouts() {
		at := AtTimeout{Timeout: t.Seconds()}
		for _, o := range out {
			c := labelOne(o, s, tl, t, classify)
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

// findOrigin is when the first transition began; else what the settings say; else
// the first attempt, and not known.
func findOrigin(tl *timeline.Timeline, s Settings, out []outcome) (origin int64, known bool) {
	starts := tl.Starts(s.Starts)
	switch {
	case len(starts) > 0:
		return starts[0].At, true
	case s.Origin != 0:
		return s.Origin, true
	case len(out) > 0:
		return out[0].Intended, false
	}
	return 0, false
}

func nothingBegan(s timeline.Start) string {
	if s == timeline.PodDeleted() {
		return "no pod was deleted while this was recorded"
	}
	return "nothing began: no " + s.String() + " was recorded"
}
