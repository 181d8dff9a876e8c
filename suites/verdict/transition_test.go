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
		"that was not cut off":             func(in *Input) { in.Events[6].Node = "n2" },
		"to which no pod was lost":         func(in *Input) { in.Events = append(in.Events[:7:7], in.Events[9]); in.Settings.Origin = 1 },
		"healed for longer than it waits":  func(in *Input) { in.Events[9].At -= 2 * relistWithin; in.Events[6].At -= 2 * relistWithin },
		"under eTP=Local":                  func(in *Input) { in.Settings.Cluster = false },
		"whose connection to a pod opened": func(in *Input) { opened(in.Conns) },
	} {
		in := cutOff()
		break_(&in)
		if v := Judge(in); v.Causes[CauseStale] != 0 {
			t.Errorf("a node %s: %v", name, v.Causes)
		}
	}
}

func opened(conns []record.Conn) {
	for i := range conns {
		conns[i].DialMS = 0
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
	if v.SoundCauses != nil {
		t.Error("causes at sound moments of a rollout that counts")
	}
	v = Judge(in)
	if v.SoundCauses[CauseStale] != v.LostSound || v.LostSound != 7 {
		t.Errorf("at sound moments lost %d for %v", v.LostSound, v.SoundCauses)
	}
}
