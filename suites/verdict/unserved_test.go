package verdict

import (
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/record"
)

// TestUnserved: from 9 s to 10 s after the deletion the balancer has no server UP, and the new pod is
// on n2.
func TestUnserved(t *testing.T) {
	at := func(ms int64, e record.Event) record.Event { e.At = deletion + ms*1e6; return e }
	unhealthy := []record.Event{
		at(8500, record.Event{Kind: record.KindHCNP, Node: "n2", State: "ECONNREFUSED"}),
		at(9500, record.Event{Kind: record.KindHCNP, Node: "n2", State: "200"}),
	}
	for name, tc := range map[string]struct {
		change func(*Input)
		cause  Cause
		said   bool
	}{
		"its health check succeeds":    {func(*Input) {}, CauseNoServer, true},
		"its health check is refused":  {func(in *Input) { in.Events = append(in.Events, unhealthy...) }, CauseCheckFailed, true},
		"it had been refused long ago": {func(in *Input) { in.Events = append(in.Events, at(-500, unhealthy[0]), at(2500, unhealthy[1])) }, CauseNoServer, true},
		"the pod has just become ready": {func(in *Input) {
			in.Events = append(in.Events, at(4500, record.Event{Kind: record.KindPod, Pod: "echo-new", Node: "n2", State: "unready"}),
				at(5500, record.Event{Kind: record.KindPod, Pod: "echo-new", Node: "n2", State: "ready"}))
		}, CauseNoServer, false},
		"its endpoint is not ready": {func(in *Input) {
			in.Events = append(in.Events, at(7000, record.Event{Kind: record.KindEndpoint, Pod: "echo-new", Node: "n2", State: "serving"}))
		}, CauseNoServer, false},
		"its endpoint was not known": {func(in *Input) {
			for i, e := range in.Events {
				if e.Kind == record.KindEndpoint && e.Pod == "echo-new" {
					in.Events[i].At = deletion + 6000*ms
				}
			}
		}, CauseNoServer, false},
		"the balancer has just begun": {func(in *Input) {
			in.Events = append(in.Events, at(5500, record.Event{Kind: record.KindLB, LB: service, State: record.LBStart}))
		}, CauseNoServer, false},
		"the balancer began long ago": {func(in *Input) {
			in.Events = append(in.Events, at(3500, record.Event{Kind: record.KindLB, LB: service, State: record.LBStart}))
		}, CauseNoServer, true},
		"nobody knows how it checks": {func(in *Input) { in.Settings.Rise = 0 }, CauseNoServer, false},
		"policy Cluster":             {func(in *Input) { in.Settings.Local, in.Settings.Cluster = false, true }, CauseNoServer, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := fallbackScene().input()
			in.Settings.Rise = 3e9 // and 2 s until the dataplane has heard: told within 5 s
			in.Events = append(in.Events,
				at(9000, record.Event{Kind: record.KindServer, LB: service, Node: "n2", State: "DOWN"}),
				at(10000, record.Event{Kind: record.KindServer, LB: service, Node: "n2", State: "UP"}))
			for i := range in.Attempts {
				if when := in.Attempts[i].Start - deletion; when >= 9000*ms && when < 10000*ms {
					in.Attempts[i] = scene{}.fail(in.Attempts[i], record.FailEOF, 3)
					in.Conns[i].Server, in.Conns[i].Term, in.Conns[i].DialMS = noServer, "SC", -1
				}
			}
			tc.change(&in)
			r := Judge(in)
			rec := r.Reconstruction
			if r.Lost != 100 || r.Causes[tc.cause] != 100 {
				t.Errorf("lost %d, for %v; want 100, all for %s", r.Lost, r.Causes, tc.cause)
			}
			if !in.Settings.Cluster && (rec.Within == tc.said || tc.said && rec.Unexplained < 99) {
				t.Errorf("reconstruction %+v; explained: want %v", rec, !tc.said)
			}
			if said := strings.Contains(strings.Join(r.Warnings, "\n"), "100 requests met no server UP, though a pod on n2 had been ready for 5.0 s"); said != tc.said {
				t.Errorf("said %v, want %v: %q", said, tc.said, r.Warnings)
			}
		})
	}
}

// TestCausesAreAll: the list has each cause of the table, once.
func TestCausesAreAll(t *testing.T) {
	listed := map[Cause]int{}
	for _, c := range Causes() {
		listed[c]++
	}
	ruled := map[Cause]bool{}
	for _, r := range rules() {
		ruled[r.cause] = true
		if listed[r.cause] != 1 {
			t.Errorf("cause %s is %d times in the list", r.cause, listed[r.cause])
		}
	}
	for c := range listed {
		if !ruled[c] {
			t.Errorf("no line of the table is of cause %s", c)
		}
	}
}
