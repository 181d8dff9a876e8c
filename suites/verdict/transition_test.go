package verdict

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/timeline"
)

// cutOff is a workload of a pod on each of two nodes, under eTP=Cluster: n1 is cut off at 1 s, the
// pod on n2 is deleted at 2 s, answers until 3 s, and n1 is healed at 5 s. Ten requests a second
// go to each node in turn; of those to n1 every other goes to the pod that is gone, until 6 s.
func cutOff() Input {
	const s = int64(time.Second)
	in := Input{Stream: record.Main, Settings: Settings{Rate: 10, Timeout: time.Second, Deadline: 2 * time.Second, LB: "ns/echo", Cluster: true, Nodes: []string{"n1", "n2"}}}
	in.Events = []record.Event{
		{At: 1, Kind: record.KindPod, Pod: "a", Node: "n1", State: "ready"}, {At: 1, Kind: record.KindPod, Pod: "b", Node: "n2", State: "ready"},
		{At: 1, Kind: record.KindServer, LB: "ns/echo", Node: "n1", State: "UP"}, {At: 1, Kind: record.KindServer, LB: "ns/echo", Node: "n2", State: "UP"},
		{At: 1, Kind: record.KindNodePort, Node: "n1", State: "ok"}, {At: 1, Kind: record.KindNodePort, Node: "n2", State: "ok"},
		{At: s, Kind: record.KindAct, State: record.ActCut, Node: "n1"},
		{At: 2 * s, Kind: record.KindPod, Pod: "b", Node: "n2", State: "deleting"},
		{At: 3 * s, Kind: record.KindPod, Pod: "b", Node: "n2", State: "gone"},
		{At: 5 * s, Kind: record.KindAct, State: record.ActHealed},
	}
	for i := range 80 {
		at := int64(i)*s/10 + 1
		src := netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), uint16(1000+i))
		a := record.Attempt{Stream: record.Main, Seq: i, Intended: at, Start: at, Connected: at + 1, Src: src, End: at + s/100, Phase: record.PhaseDone, Status: 200, BodyOK: true, Pod: "a"}
		c := record.Conn{LB: "ns/echo", Client: src, Server: "n2", Accepted: at + 1, At: a.End, Term: "--"}
		if i%2 == 0 {
			c.Server = "n1"
			if i%4 == 0 && at < 6*s {
				a.Pod = "b"
			}
		}
		if a.Pod == "b" && at > 3*s { // nobody answers there
			a.Pod, a.BodyOK, a.Status, a.Phase, a.Failure, a.End = "", false, 0, record.PhaseRead, record.FailTimeout, at+2*s
			c.DialMS, c.Term, c.At = -1, "sC", a.End
		}
		in.Attempts, in.Conns = append(in.Attempts, a), append(in.Conns, c)
	}
	for i := range 160 {
		at := int64(i) * s / 20
		in.Control = append(in.Control, record.Attempt{Stream: record.Control, Seq: i, Intended: at, Start: at, End: at + 1, Phase: record.PhaseDone, Status: 200, BodyOK: true})
	}
	return in
}

// A node that did not hear of a pod's end is told from one that did: by what it lost, by how long it
// sent to the pod, and by nothing of what states under eTP=Cluster do not show.
func TestStaleNode(t *testing.T) {
	v := Judge(cutOff())
	if !v.Valid {
		t.Fatalf("invalid: %q", v.Reasons)
	}
	if v.Lost != 7 || v.Causes[CauseStale] != 7 || CauseStale.Hop() != HopNode {
		t.Errorf("lost %d for %v", v.Lost, v.Causes)
	}
	if v.Reconstruction.Possible {
		t.Error("a loss is reconstructed from polls that other pods answer")
	}
	if len(v.Transitions) != 1 || v.Transitions[0].Pod != "b" || v.Transitions[0].Lost != 7 {
		t.Fatalf("transitions %+v", v.Transitions)
	}
	if got, want := v.Transitions[0].Stale, map[string]float64{"n1": 3.6, "n2": 0}; !maps.EqualFunc(got, want, func(a, b float64) bool { return a-b < 0.001 && b-a < 0.001 }) {
		t.Errorf("stale %v, want %v", got, want)
	}
	for name, break_ := range map[string]func(*Input){
		"that was not cut off":     func(in *Input) { in.Events[6].Node = "n2" },
		"to which no pod was lost": func(in *Input) { in.Events = append(in.Events[:7:7], in.Events[9]); in.Settings.Origin = 1 },
		"healed for longer than it waits": func(in *Input) {
			in.Events[9].At -= 2 * relistWithin.Nanoseconds()
			in.Events[6].At -= 2 * relistWithin.Nanoseconds()
		},
		"under eTP=Local": func(in *Input) { in.Settings.Cluster = false },
		"whose dials began while the pod lived": func(in *Input) {
			for i := range in.Attempts { // they end after the pod
				if a := &in.Attempts[i]; a.Failure != "" {
					in.Events[8].At = max(in.Events[8].At, a.Start+1)
				}
			}
		},
		"that another pod of the workload answered, late": func(in *Input) {
			for i := range in.Attempts {
				if a := &in.Attempts[i]; a.Failure != "" {
					a.Phase, a.Failure, a.Status, a.BodyOK, a.Pod, a.End = record.PhaseDone, "", 200, true, "a", a.Start+int64(500*time.Millisecond)
					in.Conns[i].DialMS, in.Conns[i].Term = 1, "--"
				}
			}
		},
		"whose pod answers its node still": func(in *Input) {
			in.Events[8] = record.Event{At: 1, Kind: record.KindDirect, Node: "n2", Pod: "b", State: "ok"}
		},
	} {
		in := cutOff()
		break_(&in)
		if v := Judge(in); v.Causes[CauseStale]+v.SlowCauses[CauseStale] != 0 {
			t.Errorf("a node %s: %v, %v", name, v.Causes, v.SlowCauses)
		}
	}
}

// Each transition has what was lost from it on, and the first is the origin.
func TestTransitions(t *testing.T) {
	in := cutOff()
	in.Settings.Starts = timeline.Start{Kind: record.KindLB, State: "reload"}
	const s = int64(time.Second)
	for _, at := range []int64{2 * s, 4 * s} {
		in.Events = append(in.Events, record.Event{At: at, Kind: record.KindLB, LB: "ns/echo", State: "reload"})
	}
	v := Judge(in)
	if len(v.Transitions) != 2 {
		t.Fatalf("transitions %+v", v.Transitions)
	}
	first, second := v.Transitions[0], v.Transitions[1]
	if first.At != 0 || second.At != 2 || first.Lost+second.Lost != 7 || first.Lost != 2 || v.Observed != (Observed{}) || v.Series.From > -1.9 {
		t.Errorf("transitions %+v, observed %+v, from %v", v.Transitions, v.Observed, v.Series.From)
	}
	in.Settings.Starts.State = "exit"
	if v := Judge(in); v.Valid || v.Reasons[len(v.Reasons)-1] != "nothing began: no lb exit was recorded" {
		t.Errorf("nothing began: %q", v.Reasons)
	}
}

// What a scenario does itself is excepted as far as it goes: for its causes, between a transition and
// the act that says that all has settled, for so long at most; and of a node that has not heard of a
// pod's end the pod's share.
func TestExceptions(t *testing.T) {
	const s = int64(time.Second)
	stale := func(edit func(*Input)) Excepted {
		in := cutOff()
		in.Settings.But.Causes = []Cause{CauseStale}
		edit(&in)
		return Judge(in).Excepted
	}
	settled := func(at int64) record.Event {
		return record.Event{At: at, Kind: record.KindAct, State: record.ActSettled}
	}
	for name, c := range map[string]struct {
		edit func(*Input)
		lost int
	}{
		"all":             {func(*Input) {}, 7},
		"other causes":    {func(in *Input) { in.Settings.But.Causes = []Cause{CauseNoServer} }, 0},
		"none":            {func(in *Input) { in.Settings.But = Exceptions{} }, 0},
		"until settled":   {func(in *Input) { in.Events = append(in.Events, settled(4*s)) }, 2},
		"settled earlier": {func(in *Input) { in.Events = append(in.Events, settled(s)) }, 7},
		"within 2.5 s":    {func(in *Input) { in.Settings.But.Within = 2500 * time.Millisecond }, 4},
		"all of the node's requests are lost": {func(in *Input) {
			for i := range in.Attempts {
				if a, c := &in.Attempts[i], &in.Conns[i]; c.Server == "n1" && a.Start > 3*s && a.Start < 6*s {
					a.Pod, a.BodyOK, a.Status, a.Phase, a.Failure, a.End = "", false, 0, record.PhaseRead, record.FailTimeout, a.Start+2*s
					c.DialMS, c.Term, c.At = -1, "sC", a.End
				}
			}
		}, 15}, // no more than chance allows of five a second: 2.5 + 4 sigma + 2, which is all five
	} {
		if got := stale(c.edit); got.Lost != c.lost || got.LostSound != c.lost {
			t.Errorf("%s: excepted %+v, want %d", name, got, c.lost)
		}
	}
	c := &staleCell{given: 50, part: 0.5}
	taken := 0
	for range 50 {
		if c.take() {
			taken++
		}
	}
	if taken != 41 {
		t.Errorf("of 50 a second %d are excused, want 41", taken)
	}
}

// A connection that was open when the balancer's process ended was the balancer's.
func TestBalancerEnds(t *testing.T) {
	in := cutOff()
	in.Settings.Cluster = false
	const s = int64(time.Second)
	in.Events = append(in.Events[:6:6], in.Events[7], record.Event{At: 7*s + s/2, Kind: record.KindLB, LB: "ns/echo", State: record.LBExit})
	a := &in.Attempts[70] // 7 s
	a.End, a.BodyOK, a.Status, a.Phase, a.Failure, a.Pod = 7*s+s/2, false, 0, record.PhaseRead, record.FailEOF, ""
	in.Conns = append(in.Conns[:70:70], in.Conns[71:]...)
	if v := Judge(in); v.Causes[CauseLBReset] != 1 {
		t.Errorf("causes %v", v.Causes)
	}
	in.Events[len(in.Events)-1].At = 6 * s
	if v := Judge(in); v.Causes[CauseLBReset] != 0 {
		t.Errorf("an end before it began: %v", v.Causes)
	}
}

// A rollout that broke off does not count, and what it lost is told.
func TestBrokenOff(t *testing.T) {
	in := cutOff()
	in.Events = append(in.Events, record.Event{At: 7 * int64(time.Second), Kind: record.KindAct, State: record.ActBrokenOff, Detail: "no pod"})
	if v := Judge(in); v.Valid || v.Reasons[len(v.Reasons)-1] != "it did not come to its end: no pod" || v.LostSound != 7 {
		t.Errorf("valid %v, %q, lost at sound moments %d", v.Valid, v.Reasons, v.LostSound)
	}
}

// A connection from the port of an earlier one that nobody answered is led the same way for two
// minutes; one from another port, to another node, or that was opened, is not.
func TestRemembered(t *testing.T) {
	side := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), port) }
	dial := func(at time.Duration, node string, port uint16, ms int) outcome {
		return outcome{node: node, conn: &record.Conn{Source: side(port), Accepted: at.Nanoseconds(), DialMS: ms}}
	}
	m := memory{}
	m.note(dial(0, "n1", 1000, -1))
	m.note(dial(0, "n1", 1001, 3))
	refused := dial(0, "n1", 1003, -1)
	refused.conn.Term = "SC"
	m.note(refused)
	for name, c := range map[string]struct {
		o    outcome
		want bool
	}{
		"the same":          {dial(time.Minute, "n1", 1000, -1), true},
		"after a while":     {dial(3*time.Minute, "n1", 1000, -1), false},
		"that was opened":   {dial(time.Minute, "n1", 1000, 0), false},
		"that was refused":  {dial(time.Minute, "n1", 1003, -1), false},
		"of another port":   {dial(time.Minute, "n1", 1002, -1), false},
		"of another node":   {dial(time.Minute, "n2", 1000, -1), false},
		"after an answer":   {dial(time.Minute, "n1", 1001, -1), false},
		"without a log row": {outcome{node: "n1"}, false},
	} {
		if got := m.has(c.o); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	in := cutOff()
	in.Settings.But.Causes = []Cause{CauseStale, CauseRemembered}
	in.Events = append(in.Events, record.Event{At: 65 * int64(time.Second) / 10, Kind: record.KindAct, State: record.ActSettled})
	for _, i := range []int{32, 70} { // at 3.2 s into nowhere, at 7 s from the same port
		a, c := &in.Attempts[i], &in.Conns[i]
		a.Pod, a.BodyOK, a.Status, a.Phase, a.Failure, a.End = "", false, 0, record.PhaseRead, record.FailTimeout, a.Start+2*int64(time.Second)
		c.DialMS, c.Term, c.At, c.Source = -1, "sC", a.End, side(3000)
	}
	if v := Judge(in); v.Causes[CauseRemembered] != 1 || v.Excepted.Lost != v.Lost {
		t.Errorf("causes %v, excepted %+v of %d", v.Causes, v.Excepted, v.Lost)
	}
	if CauseRemembered.Hop() != HopNode {
		t.Error("the cause has no hop")
	}
}

// Of a connection that was open at the end of a recording it is not known to the millisecond when the
// balancer took it up: that makes it no late one. And under eTP=Cluster packets tell nothing.
func TestKnownByLess(t *testing.T) {
	in := cutOff()
	a, c := &in.Attempts[71], &in.Conns[71] // to n2
	a.BodyOK, a.Status, a.Phase, a.Failure, a.Pod, a.End = false, 0, record.PhaseRead, record.FailTimeout, "", a.Start+2*int64(time.Second)
	c.Open, c.Term, c.Accepted = true, "", c.Accepted+int64(900*time.Millisecond)
	if v := Judge(in); v.Causes[CauseLBSilent] != 0 || v.Causes[CauseSrvSilent] != 1 {
		t.Errorf("causes %v", v.Causes)
	}
	in.Settings.Ports = Ports{Node: 30080, Pod: 8080}
	c.Source, c.DialMS = netip.MustParseAddrPort("10.9.9.9:4000"), -1
	in.Events = append(in.Events, record.Event{At: 1, Kind: record.KindTap, Node: "n2", State: record.TapComplete})
	in.Packets = []record.Packet{{At: a.Start + 1, Node: "n2", In: true, Src: c.Source, Dst: netip.MustParseAddrPort("10.0.0.2:30080"), Flags: "S"}}
	c.Open, c.Accepted = false, a.Start+1
	if v := Judge(in); v.Causes[CauseNodeDrop] != 0 {
		t.Errorf("a node that sends from an address of its own is taken for silent: %v", v.Causes)
	}
}
