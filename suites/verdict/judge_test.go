package verdict

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

func TestScenes(t *testing.T) {
	for _, c := range sceneCases() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(Classify); err != nil {
				t.Error(err)
			}
			r := Judge(c.in)
			if rec := r.Reconstruction; !rec.Possible || !rec.Within || math.Abs(rec.Lost-float64(r.Lost)) > 1 {
				t.Errorf("lost %d, reconstruction %+v", r.Lost, rec)
			}
		})
	}
}

// TestReconstructionSees: states that do not explain the loss leave a residual.
func TestReconstructionSees(t *testing.T) {
	in := dropScene().input()
	for i, e := range in.Events { // the LB's log claims it gave n1 up at once
		if e.Kind == record.KindServer && e.Node == "n1" && e.State == "DOWN" {
			in.Events[i].At = deletion + 200*ms
		}
	}
	r := Judge(in)
	if r.Reconstruction.Within || r.Reconstruction.Lost != 100 || r.Reconstruction.NoServer != 100 || r.Reconstruction.Residual != 200 {
		t.Errorf("%+v", r.Reconstruction)
	}
	in = fallbackScene().input() // and one that explains a loss that was not
	for i, e := range in.Events {
		if e.Kind == record.KindNodePort && e.Node == "n1" && e.State != "ok" {
			in.Events[i].At, in.Events[i].After = deletion+200*ms, 0
		}
	}
	if rec := Judge(in).Reconstruction; rec.Within || rec.Residual != -300 {
		t.Errorf("%+v", rec)
	}
	in.Events = nil
	in.Settings.Origin, in.Settings.LB = deletion, "" // no load balancer to demand states of
	r = Judge(in)
	if r.Reconstruction.Possible || r.Reconstruction.Within || !r.Valid || len(r.Warnings) != 1 {
		t.Errorf("without events: %+v %v %v", r.Reconstruction, r.Valid, r.Warnings)
	}
}

// The waits are those of ip-sysctl.rst: with an initial wait of 1 s and 4 linear ones, 1, 1, 1, 1, 1, 2, 4.
func TestResends(t *testing.T) {
	for _, tc := range []struct {
		s    SYNs
		want string
	}{
		{SYNs{}, "[1s 2s 3s 4s 5s 7s]"},
		{SYNs{Retries: 4}, "[1s 3s 7s 15s]"},
		{SYNs{Linear: 1, Retries: 3}, "[1s 2s 4s]"},
	} {
		if got := fmt.Sprint(tc.s.Resends()); got != tc.want {
			t.Errorf("%+v: SYNs again after %s, want %s", tc.s, got, tc.want)
		}
	}
}

// TestRescue: a node that forwards again within the client's patience makes
// slow successes of what the resent SYN saves.
func TestRescue(t *testing.T) {
	events := []record.Event{
		{At: 1 * s1, Kind: record.KindServer, State: "UP", Node: "n1"},
		{At: 1 * s1, Kind: record.KindNodePort, State: "ok", Node: "n1"},
		{At: 10 * s1, Kind: record.KindNodePort, State: record.FailTimeout, Node: "n1"},
		{At: 12 * s1, Kind: record.KindNodePort, State: "ok", Node: "n1"},
	}
	tl := timeline.New(events)
	var out []outcome
	for i := range 40 { // 10 per second from 9 s
		out = append(out, outcome{Attempt: good(func(a *record.Attempt) { a.Start = 9*s1 + int64(i)*100*ms }), class: OK})
	}
	s := Settings{Timeout: 2500 * time.Millisecond, Connect: 5 * time.Second}
	r := reconstruct(out, tl, s) // SYN again 1 and 2 s later: all are saved
	if r.Lost != 0 || r.Slow != 20 {
		t.Errorf("silent drop: lost %v slow %v, want 0 and 20", r.Lost, r.Slow)
	}
	s.SYN = SYNs{Retries: 6} // SYN again 1 and 3 s later: those of [11 s, 12 s) are saved
	if r := reconstruct(out, tl, s); r.Lost != 10 || r.Slow != 10 {
		t.Errorf("silent drop, kernel before 6.5: lost %v slow %v, want 10 and 10", r.Lost, r.Slow)
	}
	s.Timeout = 500 * time.Millisecond
	if r := reconstruct(out, tl, s); r.Lost != 20 || r.Slow != 0 {
		t.Errorf("hasty client: lost %v slow %v, want 20 and 0", r.Lost, r.Slow)
	}
	events[2].State = "ECONNREFUSED"
	tl = timeline.New(events)
	s.Timeout = 2500 * time.Millisecond
	if r := reconstruct(out, tl, s); r.Lost != 20 || r.Slow != 0 {
		t.Errorf("refusal, no retries: lost %v slow %v, want 20 and 0", r.Lost, r.Slow)
	}
	s.Retries = 3
	if r := reconstruct(out, tl, s); r.Lost != 0 || r.Slow != 20 {
		t.Errorf("refusal, retries: lost %v slow %v, want 0 and 20", r.Lost, r.Slow)
	}
}

func TestSelfCheck(t *testing.T) {
	for _, tc := range []struct {
		name   string
		edit   func(*Input)
		reason string // empty: valid
		warn   string
	}{
		{"clean", func(*Input) {}, "", ""},
		{"no attempts", func(in *Input) { in.Attempts, in.Conns = nil, nil }, "no attempts", ""},
		{"p99 late", func(in *Input) {
			for i := range 21 {
				in.Attempts[i].Intended -= 11 * ms
			}
		}, "late: p99", ""},
		{"one percent late", func(in *Input) {
			for i := range 20 {
				in.Attempts[i].Intended -= 50 * ms
			}
		}, "", ""},
		{"one very late", func(in *Input) { in.Attempts[0].Intended -= 200 * ms }, "", "late"},
		{"not sent", func(in *Input) { in.Attempts[3] = seq(failed(record.PhaseDial, record.FailNotSent, 0), 3) }, "not sent", ""},
		{"no port", func(in *Input) { in.Attempts[3] = seq(failed(record.PhaseDial, "EADDRNOTAVAIL", 0), 3) }, "on this host", ""},
		{"record missing", func(in *Input) { in.Attempts = append(in.Attempts[:7:7], in.Attempts[8:]...) }, "1 planned attempts have no record", ""},
		{"record twice", func(in *Input) { in.Attempts = append(in.Attempts, in.Attempts[7]) }, "more than one record", ""},
		{"control failed", func(in *Input) { in.Control[2] = failed(record.PhaseRead, record.FailEOF, 1) }, "1 of 400 control", ""},
		{"control too slow", func(in *Input) { in.Control[2] = took(3000, 3000) }, "1 of 400 control", ""},
		{"no control", func(in *Input) { in.Control = nil }, "no control attempts", ""},
		{"nothing deleted", func(in *Input) {
			var kept []record.Event
			for _, e := range in.Events {
				if e.State != "deleting" {
					kept = append(kept, e)
				}
			}
			in.Events = kept
		}, "no pod was deleted", ""},
		{"deleting from the start", func(in *Input) {
			for i, e := range in.Events {
				if e.State == "deleting" {
					in.Events[i].Pod = "echo-older"
				}
			}
		}, "no pod was deleted", ""},
		{"no LB log", func(in *Input) { in.Conns = nil }, "only 0 of 2000 attempts that connected", ""},
		{"a tenth not logged", func(in *Input) { in.Conns = in.Conns[:1800] }, "", ""},
		{"more than a tenth not logged", func(in *Input) { in.Conns = in.Conns[:1799] }, "only 1799 of 2000", ""},
		{"not logged, never connected", func(in *Input) {
			in.Conns = in.Conns[300:]
			for i := range 300 {
				in.Attempts[i] = seq(failed(record.PhaseDial, "ECONNREFUSED", 1), i)
			}
		}, "", ""},
		{"full", func(in *Input) { in.Conns[7].Full = true }, "the load balancer was full when 1 connections ended", ""},
		{"another one full", func(in *Input) {
			other := in.Conns[7]
			other.LB, other.Full = "ns/other", true
			in.Conns = append(in.Conns, other)
		}, "", ""},
		{"log of another service", func(in *Input) {
			for i := range in.Conns {
				in.Conns[i].LB = "ns/other"
			}
		}, "only 0 of 2000", ""},
		{"no LB states", func(in *Input) { in.Events = without(in.Events, record.KindServer) }, "nothing to reconstruct", ""},
		{"LB states of another service", func(in *Input) {
			for i := range in.Events {
				in.Events[i].LB = "ns/other"
			}
			in.Settings.Origin = deletion
		}, "nothing to reconstruct", ""},
		{"no node states", func(in *Input) { in.Events = without(in.Events, record.KindNodePort) }, "nothing to reconstruct", ""},
		{"no LB, no log", func(in *Input) { in.Conns, in.Settings.LB = nil, "" }, "", "only 0 of 2000"},
		{"ends early", func(in *Input) { in.Events = in.Events[:len(in.Events)-2] }, "", "ends before"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := fallbackScene().input()
			tc.edit(&in)
			r := Judge(in)
			reasons, warnings := strings.Join(r.Reasons, "; "), strings.Join(r.Warnings, "; ")
			if r.Valid != (tc.reason == "") || !strings.Contains(reasons, tc.reason) {
				t.Errorf("valid %v, reasons %q; want %q", r.Valid, reasons, tc.reason)
			}
			if !strings.Contains(warnings, tc.warn) || (tc.warn == "" && tc.reason == "" && warnings != "") {
				t.Errorf("warnings %q, want %q", warnings, tc.warn)
			}
		})
	}
}

func without(events []record.Event, k record.Kind) []record.Event {
	var kept []record.Event
	for _, e := range events {
		if e.Kind != k {
			kept = append(kept, e)
		}
	}
	return kept
}

func seq(a record.Attempt, n int) record.Attempt {
	a.Seq = n
	return a
}

// TestHarnessIsNoLoss: what was not sent is neither lost nor sent.
func TestHarnessIsNoLoss(t *testing.T) {
	in := fallbackScene().input()
	in.Attempts[3] = seq(failed(record.PhaseDial, record.FailNotSent, 0), 3)
	in.Attempts[4] = seq(failed(record.PhaseDial, "EMFILE", 0), 4)
	r := Judge(in)
	if r.Lost != 0 || r.Sent != 1998 || r.Harness.NotSent != 1 || r.Harness.Local != 1 || len(r.NodeWindows) != 0 {
		t.Errorf("lost %d sent %d harness %+v", r.Lost, r.Sent, r.Harness)
	}
}

func TestObserved(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	want := Observed{
		OldNode: "n1", NewNode: "n2",
		Ready: f(-0.05), Slice: f(0.03), HCNPDown: f(0.2), OldDead: f(0.2), Gone: f(12), LBDown: f(5.2),
		NewForwards: f(0.1), HCNPUp: f(0.15), LBUp: f(1.2),
		Removal: f(5), Admission: f(1.05), SafeDelay: f(5.2),
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if d := cmp.Diff(want, Judge(dropScene().input()).Observed, near); d != "" {
		t.Errorf("observed (-want +got):\n%s", d)
	}
}

// TestSensitivity: the same recording for clients of other patience.
func TestSensitivity(t *testing.T) {
	in := slowed(fallbackScene().input())
	in.Attempts[200] = failedAt(in.Attempts[200], record.FailTimeout, 2000) // given up after 2 s
	want := []AtTimeout{
		{Timeout: 0.5, Lost: 2, Slow: 1}, {Timeout: 1, Lost: 2, Slow: 1},
		{Timeout: 2.5, Lost: 1, Slow: 2, Censored: 1}, {Timeout: 5, Lost: 1, Slow: 2, Censored: 1}, {Timeout: 10, Lost: 1, Slow: 2, Censored: 1},
	}
	if d := cmp.Diff(want, Judge(in).Sensitivity); d != "" {
		t.Errorf("sensitivity (-want +got):\n%s", d)
	}
}

func failedAt(a record.Attempt, failure string, after int64) record.Attempt {
	return scene{}.fail(a, failure, after)
}

// TestWindows: bridging, outer edges, and what an outage is.
func TestWindows(t *testing.T) {
	// x: loss on n1, o: success on n1, O: success on n2, X: loss on n2, -: not sent
	for _, tc := range []struct {
		name string
		line string // one attempt per 100 ms
		want []string
	}{
		{"none", "oOoO", nil},
		{"one", "oOxOo", []string{"n1 0.20-0.20 (0.00-0.40) 1/1"}},
		{"at the edge", "xOoOx", []string{"n1 0.00-0.00 (0.00-0.20) 1/1", "n1 0.40-0.40 (0.20-0.40) 1/1"}},
		{"bridged over a success", "ooxoxoo", []string{"n1 0.20-0.40 (0.10-0.50) 2/3"}},
		{"losses without a success between", "oxOOOOxo", []string{"n1 0.10-0.10 (0.00-0.70) 1/1", "n1 0.60-0.60 (0.00-0.70) 1/1"}},
		{"the same at the edges", "xOOOOx", []string{"n1 0.00-0.00 (0.00-0.00) 1/1", "n1 0.50-0.50 (0.50-0.50) 1/1"}},
		{"too far apart", "oxoooxo", []string{"n1 0.10-0.10 (0.00-0.20) 1/1", "n1 0.50-0.50 (0.40-0.60) 1/1"}},
		{"alternating nodes", "oOxOxOoO", []string{"n1 0.20-0.40 (0.00-0.60) 2/2"}},
		{"both nodes", "oOxXoO", []string{
			"n1 0.20-0.20 (0.00-0.40) 1/1", "n2 0.30-0.30 (0.10-0.50) 1/1", " 0.20-0.30 (0.10-0.40) 2/2",
		}},
		{"not sent neither counts nor parts", "ox-xo", []string{"n1 0.10-0.30 (0.00-0.40) 2/2", " 0.10-0.30 (0.00-0.40) 2/2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out []outcome
			for i, c := range tc.line {
				o := outcome{class: OK, node: "n1", Attempt: record.Attempt{Seq: i, Intended: int64(i) * 100 * ms}}
				switch c {
				case 'x':
					o.class = RespTimeout
				case 'O':
					o.node = "n2"
				case 'X':
					o.class, o.node = RespTimeout, "n2"
				case '-':
					o.class, o.node = NotSent, ""
				}
				out = append(out, o)
			}
			nodes, outages := windows(out, Settings{Rate: 100, Nodes: []string{"n1", "n2"}}, &timeline.Timeline{}, seconds)
			var got []string
			for _, w := range append(nodes, outages...) {
				got = append(got, showOuter(w))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func showOuter(w Window) string {
	return fmt.Sprintf("%s %.2f-%.2f (%.2f-%.2f) %d/%d", w.Node, w.Start, w.End, w.OuterStart, w.OuterEnd, w.Lost, w.Of)
}

func TestBridge(t *testing.T) {
	for _, tc := range []struct {
		rate  float64
		nodes int
		want  time.Duration
	}{{100, 2, 250 * time.Millisecond}, {10, 2, time.Second}, {1, 2, 10 * time.Second}, {0, 2, 250 * time.Millisecond}} {
		if got := bridge(Settings{Rate: tc.rate, Nodes: make([]string, tc.nodes)}, &timeline.Timeline{}); got != tc.want {
			t.Errorf("rate %g, %d nodes: %s, want %s", tc.rate, tc.nodes, got, tc.want)
		}
	}
}

// TestJoin: ports are used again; the nearest accept counts, another Service's none.
func TestJoin(t *testing.T) {
	a := dropScene().input().Attempts[10]
	conn := func(offset int64, server, lb string) record.Conn {
		return record.Conn{Client: a.Src, Accepted: a.Connected + offset, Server: server, LB: lb}
	}
	for _, tc := range []struct {
		name  string
		conns []record.Conn
		want  string
	}{
		{"nearest", []record.Conn{conn(-4*s1, "far", ""), conn(2*ms, "near", ""), conn(3*s1, "far", "")}, "near"},
		{"too far", []record.Conn{conn(-61*s1, "far", "")}, ""},
		{"other service", []record.Conn{conn(0, "other", "ns/b"), conn(9*ms, "own", "ns/a")}, "own"},
		{"none", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := join([]record.Attempt{a}, tc.conns, Settings{LB: "ns/a"})
			got := ""
			if out[0].conn != nil {
				got = out[0].conn.Server
			}
			if got != tc.want {
				t.Errorf("joined %q, want %q", got, tc.want)
			}
		})
	}
}

// TestCauses: who is to blame, from one loss and the states around it.
func TestCauses(t *testing.T) {
	const at = 5 * s1
	ev := func(k record.Kind, state string) record.Event {
		return record.Event{At: s1, Kind: k, State: state, Node: "n1", Pod: "p"}
	}
	up, healthy, alive := ev(record.KindServer, "UP"), ev(record.KindHCNP, "200"), ev(record.KindPod, "ready")
	lag, gone := ev(record.KindHCNP, "503"), ev(record.KindPod, "gone")
	dropped, refused := ev(record.KindNodePort, record.FailTimeout), ev(record.KindNodePort, "ECONNREFUSED")
	forwards := ev(record.KindNodePort, "ok")
	later := func(e record.Event) record.Event { e.At = at - s1; return e }
	to := func(dial int) *record.Conn { return &record.Conn{Server: "n1", DialMS: dial} }
	for _, tc := range []struct {
		name   string
		class  Class
		conn   *record.Conn
		node   string
		events []record.Event
		want   Cause
	}{
		{"logged no server", EOFBeforeResp, &record.Conn{Server: noServer, DialMS: -1}, "", []record.Event{up}, CauseNoServer},
		{"not logged, none up", RespTimeout, nil, "", []record.Event{ev(record.KindServer, "DOWN")}, CauseNoServer},
		{"not logged", RespTimeout, nil, "", []record.Event{up}, CauseUnknown},
		{"lag, pod lives", RespTimeout, to(-1), "n1", []record.Event{up, lag, alive, dropped}, CauseLagPodAlive},
		{"lag, pod gone", EOFBeforeResp, to(-1), "n1", []record.Event{up, lag, gone, refused}, CauseLagPodGone},
		{"lag, pod unknown", EOFBeforeResp, to(-1), "n1", []record.Event{up, lag, refused}, CauseSrvRefused},
		{"lag, pod unready", EOFBeforeResp, to(-1), "n1", []record.Event{up, lag, alive, refused, ev(record.KindEndpoint, "terminating")}, CauseLagUnready},
		{"healthy, drops", RespTimeout, to(-1), "n1", []record.Event{up, healthy, alive, dropped}, CauseSrvSilent},
		{"healthy, refuses", EOFBeforeResp, to(-1), "n1", []record.Event{up, healthy, alive, refused}, CauseSrvRefused},
		{"healthy, pod has just gone", EOFBeforeResp, to(-1), "n1", []record.Event{up, healthy, alive, later(gone), refused}, CausePod},
		{"healthy, though its pod went long ago", EOFBeforeResp, to(-1), "n1", []record.Event{up, healthy, gone, refused}, CauseSrvRefused},
		{"forwards, then a reset", ResetBeforeResp, to(0), "n1", []record.Event{up, healthy, alive, forwards}, CauseSrvReset},
		{"forwards, yet dial timed out", RespTimeout, to(-1), "n1", []record.Event{up, healthy, alive, forwards}, CauseSrvSilent},
		{"forwards, yet dial refused", EOFBeforeResp, to(-1), "n1", []record.Event{up, healthy, alive, forwards}, CauseSrvRefused},
		{"forwards, not logged", EOFBeforeResp, nil, "n1", []record.Event{up, healthy, alive, forwards}, CauseUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := outcome{class: tc.class, conn: tc.conn, node: tc.node, Attempt: record.Attempt{Start: at, Connected: at + ms}}
			if tc.conn != nil {
				tc.conn.Accepted = o.Connected
			}
			e := evidence{outcome: o, tl: timeline.New(tc.events), s: Settings{LB: service, Timeout: 2500 * time.Millisecond}}
			if got := causeOf(e); got != tc.want {
				t.Errorf("cause %s, want %s", got, tc.want)
			}
		})
	}
}

// TestCausesWithoutOurBalancer: a node port answers its client itself; of a balancer of which
// nothing is known it cannot be told who did.
func TestCausesWithoutOurBalancer(t *testing.T) {
	refused := record.Attempt{Start: s1, End: s1 + ms, Phase: record.PhaseDial, Failure: "ECONNREFUSED"}
	for unseen, want := range map[bool]Cause{false: CauseSrvRefused, true: CauseUnknown} {
		e := evidence{outcome: outcome{Attempt: refused, class: DialRefused}, tl: timeline.New(nil), s: Settings{Unseen: unseen, Timeout: time.Second}}
		if got := causeOf(e); got != want {
			t.Errorf("balancer unseen %v: %s, want %s", unseen, got, want)
		}
	}
}

// TestWrongBackend: under eTP=Local the LB's target answers, or something is wrong.
func TestWrongBackend(t *testing.T) {
	in := fallbackScene().input()
	in.Attempts[20].Node = "n2"
	if r := Judge(in); r.Lost != 1 || r.Classes[WrongBackend] != 1 {
		t.Errorf("lost %d, classes %v", r.Lost, r.Classes)
	}
	in.Settings.Local = false
	if r := Judge(in); r.Lost != 0 {
		t.Errorf("eTP=Cluster: lost %d, classes %v", r.Lost, r.Classes)
	}
}

// TestUnloggedLoss: a connection that the LB had not logged yet is placed where
// only one server can have been it.
func TestUnloggedLoss(t *testing.T) {
	in := dropScene().input()
	in.Conns = nil
	r := Judge(in)
	if len(r.NodeWindows) != 1 || show(r.NodeWindows[0]) != "n1 0.20 5.19 300/300" {
		t.Errorf("windows %+v", r.NodeWindows)
	}
}

func TestSeries(t *testing.T) {
	in := dropScene().input()
	in.Settings.Limits = DefaultLimits()
	in.Settings.Limits.Samples = 100
	s := Judge(in).Series
	lost, sampled, full := 0, map[string]int{}, map[string]int{}
	for _, p := range s.Points {
		if p.Class.Lost() {
			lost++
		} else {
			sampled[p.Node]++
		}
	}
	in.Settings.Limits.Samples = 1 << 20
	for _, p := range Judge(in).Series.Points {
		if !p.Class.Lost() {
			full[p.Node]++
		}
	}
	if lost != 300 || len(sampled) != len(full) {
		t.Errorf("%d losses and successes of %v, want 300 and of every node in %v", lost, sampled, full)
	}
	step := (full["n1"] + full["n2"] + 99) / 100
	for node, n := range full { // the same part of each node's, and none lost by parity
		if want := (n + step - 1) / step; sampled[node] != want {
			t.Errorf("node %s: %d successes sampled of %d, want %d", node, sampled[node], n, want)
		}
	}
	if s.From != -5 || s.To != 14.99 || len(s.Changes) != len(in.Events) {
		t.Errorf("from %v to %v, %d changes", s.From, s.To, len(s.Changes))
	}
}

// TestOrder: the verdict does not depend on the order of the records.
func TestOrder(t *testing.T) {
	in := dropScene().input()
	want := Judge(in)
	for i, j := 0, len(in.Attempts)-1; i < j; i, j = i+1, j-1 {
		in.Attempts[i], in.Attempts[j] = in.Attempts[j], in.Attempts[i]
		in.Conns[i], in.Conns[j] = in.Conns[j], in.Conns[i]
	}
	for i, j := 0, len(in.Events)-1; i < j; i, j = i+1, j-1 {
		in.Events[i], in.Events[j] = in.Events[j], in.Events[i]
	}
	got := Judge(in)
	got.Series.Changes, want.Series.Changes = nil, nil // equal times keep the order of arrival
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
