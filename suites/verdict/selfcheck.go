package verdict

import (
	"fmt"

	"github.com/plumbline/plumbline/fixtures/record"
)

// selfCheck measures the harness and decides whether it may be believed. It
// wants the reconstruction, which shows what the load balancer's records hold.
func selfCheck(r *Rollout, in Input, s Settings, out []outcome, classify classifier) {
	h := &r.Harness
	var late []float64
	for _, o := range out {
		if o.Connected != 0 && !o.class.Harness() {
			h.Connected++
		}
		if o.conn != nil {
			h.Joined++
		}
		if o.class != NotSent {
			late = append(late, seconds(o.Late()))
		}
	}
	h.Late = quantiles(late)
	for _, c := range in.Conns {
		if c.Full && c.LB == s.LB {
			h.Full++
		}
	}
	h.NotSent, h.Local = r.Classes[NotSent], r.Classes[DialLocal]
	h.Missing, h.Twice = gaps(out)
	for _, a := range in.Control {
		h.ControlSent++
		switch c := classify(a, s.Timeout); {
		case c.Slow():
			h.ControlSlow++
		case !c.Success():
			h.ControlFailed++
		}
	}
	r.Reasons = append(r.Reasons, reasons(*h, len(out), s.Limits)...)
	r.Warnings = append(r.Warnings, warnings(*r, s.Limits)...)
	for _, e := range in.Events {
		if e.Kind == record.KindTap && e.State != record.TapComplete {
			r.Warnings = append(r.Warnings, fmt.Sprintf("packets of node %s cannot vouch for causes: %s", e.Node, e.State))
		}
	}
	if s.LB != "" {
		r.Reasons = append(r.Reasons, unusable(*r, s)...)
	} else {
		r.Warnings = append(r.Warnings, unusable(*r, s)...)
	}
}

// unusable is what the load balancer's records lack. Without its states nothing
// tells what loss to expect, and without its log no loss has a node or a cause:
// a rollout through a load balancer of ours counts only with both.
func unusable(r Rollout, s Settings) []string {
	var list sayings
	h := r.Harness
	list.add(!r.Reconstruction.Possible && !s.Cluster, "no load balancer or node states were recorded: nothing to reconstruct from")
	list.add(h.Joined*10 < h.Connected*9, "only %d of %d attempts that connected are in the load balancer's log", h.Joined, h.Connected)
	return list
}

// reasons are why a rollout must not count. Lateness is one by its 99th
// percentile, which is the rule of a valid run (p99 over 10 ms: invalid).
func reasons(h Harness, attempts int, l Limits) []string {
	var list sayings
	list.add(attempts == 0, "no attempts were recorded")
	list.add(h.Late.P99 > l.LateP99.Seconds(), "probes were late: p99 %.1f ms, limit %.1f ms", h.Late.P99*1e3, l.LateP99.Seconds()*1e3)
	list.add(h.NotSent > 0, "%d attempts were not sent: the in-flight cap was reached", h.NotSent)
	list.add(h.Local > 0, "%d attempts failed on this host: no port, descriptor or permission", h.Local)
	list.add(h.Missing > 0, "%d planned attempts have no record", h.Missing)
	list.add(h.Twice > 0, "%d planned attempts have more than one record", h.Twice)
	list.add(h.Full > 0, "the load balancer was full when %d connections ended (maxconn): clients waited for it, not for a node", h.Full)
	list.add(h.ControlSent == 0, "no control attempts: nothing vouches for the host")
	list.add(h.ControlFailed > 0, "%d of %d control attempts failed: the host, not the dataplane", h.ControlFailed, h.ControlSent)
	list.add(h.ControlSlow*100 > h.ControlSent, "%d of %d control attempts were slow: the host, not the dataplane", h.ControlSlow, h.ControlSent)
	return list
}

// warnings are odd, and no reason not to count the rollout. A single attempt
// that was late by more than LateMax is one: the rule is the 99th percentile,
// and one attempt in thousands, still classified from its real start and placed
// at its planned time, moves no count and no window. The host stalled for that
// moment all the same, and who looks at an odd loss should know.
func warnings(r Rollout, l Limits) []string {
	var list sayings
	h := r.Harness
	list.add(h.Late.Max > l.LateMax.Seconds(), "one probe was %.0f ms late", h.Late.Max*1e3)
	list.add(h.ControlSlow > 0, "%d of %d control attempts were slow: the host stalled", h.ControlSlow, h.ControlSent)
	if d := disagreement(r.Reconstruction, r.Second); d != "" {
		list = append(list, d)
	}
	list.add(r.Observed.HCNPDown != nil && r.Observed.LBDown == nil, "the recording ends before the load balancer gave up the old node")
	return list
}

type sayings []string

func (s *sayings) add(is bool, format string, args ...any) {
	if is {
		*s = append(*s, fmt.Sprintf(format, args...))
	}
}

// gaps counts the sequence numbers without a record and those with several.
func gaps(out []outcome) (missing, twice int) {
	if len(out) == 0 {
		return 0, 0
	}
	seen := map[int]bool{}
	lo, hi := out[0].Seq, out[0].Seq
	for _, o := range out {
		lo, hi = min(lo, o.Seq), max(hi, o.Seq)
		if seen[o.Seq] {
			twice++
		}
		seen[o.Seq] = true
	}
	return hi - lo + 1 - len(seen), twice
}
