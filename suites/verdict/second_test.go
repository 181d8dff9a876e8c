package verdict

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
)

// mute is a workload of a pod on n1 that the observer's handshakes reach all the time. From 3 s to
// 6 s requests through the balancer are answered by nobody, and it depends on what that is whether
// its own requests and those to the pod are.
func mute(served, direct bool) Input {
	const s = int64(time.Second)
	in := Input{Stream: record.Main, Settings: Settings{Rate: 10, Timeout: time.Second, Deadline: 2 * time.Second, LB: "ns/echo", Local: true, Nodes: []string{"n1"}}}
	in.Events = []record.Event{
		{At: 1, Kind: record.KindPod, Pod: "a", Node: "n1", State: "ready"}, {At: 1, Kind: record.KindServer, LB: "ns/echo", Node: "n1", State: "UP"},
		{At: 1, Kind: record.KindNodePort, Node: "n1", State: "ok"}, {At: 1, Kind: record.KindServed, Node: "n1", State: "ok"},
		{At: 1, Kind: record.KindDirect, Node: "n1", Pod: "a", State: "ok"},
		{At: 2 * s, Kind: record.KindPod, Pod: "a", Node: "n1", State: "unready"}, {At: 8 * s, Kind: record.KindPod, Pod: "a", Node: "n1", State: "deleting"},
	}
	silent := func(k record.Kind, pod string) {
		in.Events = append(in.Events, record.Event{At: 3 * s, Kind: k, Node: "n1", Pod: pod, State: record.FailTimeout}, record.Event{At: 6 * s, Kind: k, Node: "n1", Pod: pod, State: "ok"})
	}
	if served {
		silent(record.KindServed, "")
	}
	if direct {
		silent(record.KindDirect, "a")
	}
	in.Events = append(in.Events, record.Event{At: 9 * s, Kind: record.KindDirect, Node: "n1", Pod: "a", State: "ECONNREFUSED"})
	for i := range 80 {
		at := int64(i)*s/10 + 1
		src := netip.AddrPortFrom(netip.MustParseAddr("10.9.9.9"), uint16(1000+i))
		a := record.Attempt{Stream: record.Main, Seq: i, Intended: at, Start: at, Connected: at + 1, Src: src, End: at + s/100, Phase: record.PhaseDone, Status: 200, BodyOK: true, Pod: "a", Node: "n1"}
		c := record.Conn{LB: "ns/echo", Client: src, Server: "n1", Accepted: at + 1, At: a.End, Term: "--"}
		if at > 3*s && at < 6*s {
			a.Pod, a.Node, a.BodyOK, a.Status, a.Phase, a.Failure, a.End = "", "", false, 0, record.PhaseRead, record.FailTimeout, at+2*s
			c.Term, c.At = "sD", a.End
		}
		in.Attempts, in.Conns = append(in.Attempts, a), append(in.Conns, c)
	}
	return in
}

// A loss that handshakes of others do not show is marked all the same, and the second observation
// says what it met.
func TestSecondObservation(t *testing.T) {
	for _, c := range []struct {
		name           string
		served, direct bool
		says           string
	}{
		{"whole requests are not answered", true, false, "it met whole requests or the balancer's address"},
		{"nor does the pod answer its node", true, true, "pod a did not answer its own node, past the Service, for 3.0 s"},
		{"nobody but the clients met it", false, false, "which explains more is nearer to it"},
	} {
		v := Judge(mute(c.served, c.direct))
		if v.Lost != 30 || v.Reconstruction.Within || v.Second == nil || v.Second.Within != c.served {
			t.Errorf("%s: lost %d, explained %v, second %+v", c.name, v.Lost, v.Reconstruction.Within, v.Second)
		}
		if !slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, c.says) }) {
			t.Errorf("%s: warnings %q", c.name, v.Warnings)
		}
		if pod := slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.HasPrefix(w, "pod a") }); pod != c.direct {
			t.Errorf("%s: says of the pod: %v", c.name, pod)
		}
	}
	alone := mute(false, false)
	for i := range alone.Attempts {
		a := &alone.Attempts[i]
		a.Phase, a.Failure, a.Status, a.BodyOK, a.End, a.Pod, a.Node = record.PhaseDone, "", 200, true, a.Start+1, "a", "n1"
	}
	alone.Events = append(alone.Events, record.Event{At: 3 * int64(time.Second), Kind: record.KindNodePort, Node: "n1", State: record.FailTimeout}, record.Event{At: 6 * int64(time.Second), Kind: record.KindNodePort, Node: "n1", State: "ok"})
	if v := Judge(alone); v.Reconstruction.Within || !slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, "the observer alone met it") }) {
		t.Errorf("what the observer alone met: %+v, warnings %q", v.Reconstruction, v.Warnings)
	}
	in := mute(true, false)
	in.Events = slices.DeleteFunc(in.Events, func(e record.Event) bool { return e.Kind == record.KindServed })
	if v := Judge(in); v.Second != nil || slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, "handshakes") }) {
		t.Errorf("one observation: second %+v, warnings %q", v.Second, v.Warnings)
	}
	good := mute(false, false)
	for i := range good.Attempts {
		a := &good.Attempts[i]
		a.Phase, a.Failure, a.Status, a.BodyOK, a.End, a.Pod, a.Node = record.PhaseDone, "", 200, true, a.Start+1, "a", "n1"
	}
	if v := Judge(good); v.Second == nil || !v.Second.Within || !v.Reconstruction.Within || slices.ContainsFunc(v.Warnings, func(w string) bool { return strings.Contains(w, "handshakes") }) {
		t.Errorf("nothing lost: second %+v, warnings %q", v.Second, v.Warnings)
	}
}

// What one client of several meets alone is said, unless it is chance.
func TestOneSource(t *testing.T) {
	client := func(n int) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 1) }
	rollout := func(lost func(i int) bool, clients int) []outcome {
		var out []outcome
		for i := range 400 {
			o := outcome{class: OK}
			if o.Src = client(i % clients); lost(i) {
				o.class = RespTimeout
			}
			out = append(out, o)
		}
		return out
	}
	for name, c := range map[string]struct {
		out  []outcome
		want string
	}{
		"one of four":            {rollout(func(i int) bool { return i%4 == 2 && i < 100 }, 4), "all 25 that were lost or slow are of client 10.0.0.2, one of 4"},
		"all":                    {rollout(func(i int) bool { return i < 100 }, 4), ""},
		"four, may be by chance": {rollout(func(i int) bool { return i%4 == 2 && i < 16 }, 4), ""},
		"the only one":           {rollout(func(i int) bool { return i < 100 }, 1), ""},
		"none":                   {rollout(func(int) bool { return false }, 4), ""},
	} {
		if got := oneSource(c.out); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
