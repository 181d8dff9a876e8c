package timeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/plumbline/plumbline/fixtures/record"
)

const s1 = int64(1e9)

// events of a pod that moves from n1 to n2; ms.
func events() []record.Event {
	return []record.Event{
		{At: 1 * s1, Kind: record.KindServer, State: Up, Node: "n1"},
		{At: 1 * s1, Kind: record.KindServer, State: "DOWN", Node: "n2"},
		{At: 1 * s1, Kind: record.KindNodePort, State: Forwards, Node: "n1"},
		{At: 1 * s1, Kind: record.KindPod, State: Ready, Pod: "old", Node: "n1"},
		{At: 1*s1 + 1, Kind: record.KindEndpoint, State: "ready,serving", Pod: "old"},
		{At: 5 * s1, Kind: record.KindPod, State: Ready, Pod: "new", Node: "n2"},
		{At: 6 * s1, Kind: record.KindPod, State: Deleting, Pod: "old", Node: "n1"},
		{At: 6*s1 + 1, Kind: record.KindEndpoint, State: "terminating", Pod: "old"},
		{At: 8 * s1, After: 6 * s1, Kind: record.KindNodePort, State: "TIMEOUT", Node: "n1"},
		{At: 9 * s1, Kind: record.KindServer, State: Up, Node: "n2"},
		{At: 10 * s1, Kind: record.KindServer, State: "DOWN", Node: "n1"},
		{At: 11 * s1, Kind: record.KindPod, State: Gone, Pod: "old"},
	}
}

func TestTimeline(t *testing.T) {
	tl := New(events())
	if pod, at := tl.Deleted(); pod != "old" || at != 6*s1 || tl.NodeOf(pod) != "n1" {
		t.Errorf("deleted %s at %d on %s", pod, at, tl.NodeOf(pod))
	}
	for _, tc := range []struct {
		at   int64
		up   string
		dead bool
	}{
		{0, "n1", false},     // what was found first was so from the beginning
		{7 * s1, "n1", true}, // polled: the middle
		{7*s1 - 1, "n1", false},
		{9 * s1, "n1 n2", true},
		{10 * s1, "n2", true},
	} {
		up := ""
		for _, n := range tl.Up(tc.at) {
			up += " " + n
		}
		if up != " "+tc.up || tl.Dead("n1", tc.at) != tc.dead || tl.Drops("n1", tc.at) != tc.dead {
			t.Errorf("at %d: up%s dead %v", tc.at, up, tl.Dead("n1", tc.at))
		}
	}
	for at, want := range map[int64][3]bool{
		2 * s1:  {true, true, true},
		7 * s1:  {true, true, false}, // unready
		12 * s1: {true, false, false},
	} {
		if known, lived, served := tl.Pods("n1", at); [3]bool{known, lived, served} != want {
			t.Errorf("pods of n1 at %d: %v %v %v", at, known, lived, served)
		}
	}
	if at, ok := tl.First(record.KindServer, "n1", 0, func(s string) bool { return s == Up }); ok {
		t.Errorf("n1 was UP from the beginning, and came UP at %d", at)
	}
	if at, _ := tl.First(record.KindServer, "n2", 0, func(s string) bool { return s == Up }); at != 9*s1 {
		t.Errorf("n2 came UP at %d", at)
	}
}

// A timeline that grew by events as they came is the one of all of them.
func TestAddInAnyOrder(t *testing.T) {
	want := New(events())
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		got := &Timeline{}
		all := events()
		// What is pushed comes in order; what is polled, behind by its own time.
		polled := all[8]
		rest := append(all[:8:8], all[9:]...)
		at := 8 + rng.IntN(len(rest)-7)
		for i, e := range rest {
			if i == at {
				got.Add(polled)
			}
			got.Add(e)
		}
		if at == len(rest) {
			got.Add(polled)
		}
		for ms := int64(0); ms < 13_000; ms += 250 {
			for _, k := range []record.Kind{record.KindServer, record.KindNodePort, record.KindPod, record.KindEndpoint} {
				for _, name := range want.Known(k) {
					if a, b := want.At(k, name, ms*1e6), got.At(k, name, ms*1e6); a != b {
						t.Fatalf("seed %d: %s %s at %d ms: %q, and %q as it grew", seed, k, name, ms, a, b)
					}
				}
			}
		}
	}
}

// Within the distance of two polls that found different states, a thing may have had either.
func TestChanging(t *testing.T) {
	tl := New(events())
	for at, want := range map[int64]string{5 * s1: "[ok]", 6*s1 + 1: "[ok TIMEOUT]", 7*s1 + 1: "[TIMEOUT ok]", 8*s1 + 1: "[TIMEOUT]"} {
		if got := fmt.Sprint(tl.Changing(record.KindNodePort, "n1", at)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}
