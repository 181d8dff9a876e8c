//go:build linux

package bench

import (
	"bytes"
	"flag"
	"reflect"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/schema"
)

var update = flag.Bool("update", false, "write the schema of bench.json anew")

func someResults() []Result {
	s := Spread{N: 200, Of: 200, P50: 2 * time.Millisecond, P99: 9 * time.Millisecond, Max: 12 * time.Millisecond}
	return []Result{
		{Row: "plumb-nftables", Services: 1000, Cold: 1500 * time.Millisecond, Kernel: time.Second, FirstPacket: s, Direct: s, Change: s, Switch: s, Quiet: Spread{N: 1, Of: 1, P50: 700 * time.Millisecond, P99: 700 * time.Millisecond, Max: 700 * time.Millisecond}, QuietApply: 300 * time.Millisecond, Warm: s, WarmApply: 400 * time.Millisecond, Ops: 3, Commits: 1, RSS: 20 << 20, Load: Load{Sent: 200_000},
			Steady: Steady{Spread: s, Coalesced: 1, Rate: 199.5}, Bigs: []Big{{Endpoints: 5000, Change: s, Ops: 2}}, Flows: Flows{Open: 1000, Ended: 20},
			Rates: []Rate{{"client", 9000, 12000, 180 * time.Microsecond, 150 * time.Microsecond}}, UDPConnects: UDPConnects{Pairs: 100_000, Direct: 2130, More: 910, MoreP10: 700, MoreP90: 1200}},
		{Row: "kube-proxy:iptables", Services: 10_000, Ended: "not run beyond 2000 Services without --beyond-bounds"},
		{Row: "plumb-userspace", Services: 44_000, Cold: 12 * time.Second, Ended: "warm restart: not finished within the limit", Lacks: "the node's own connections are not served: this process may make no cgroup"},
	}
}

// What programs read is as docs/schema says.
func TestSchema(t *testing.T) {
	text, err := dataJSON(someResults(), "in a user namespace")
	if err != nil {
		t.Fatal(err)
	}
	schema.Golden(t, *update, "bench", reflect.TypeFor[Data](), []byte(text))
}

// A terminal of 80 columns shows what was measured of each row, by its whole name, whatever ended.
func TestCellsFit(t *testing.T) {
	var b bytes.Buffer
	render.Table(&b, render.Fit(Cells(someResults(), false), 80), func(string) bool { return false })
	for line := range bytes.Lines(b.Bytes()) {
		if n := utf8.RuneCount(bytes.TrimSpace(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"SWITCH p50/p99  WARM\n", "plumb-nftables ", "2 ms / 9 ms", "kube-proxy:iptables *", "plumb-userspace *      12 s"} {
		if !bytes.Contains(b.Bytes(), []byte(want)) {
			t.Errorf("no %q in\n%s", want, b.Bytes())
		}
	}
	wide := Cells(someResults(), true)
	for _, row := range wide[1:] {
		if len(row) != len(wide[0]) {
			t.Errorf("%d cells for %d columns: %q", len(row), len(wide[0]), row)
		}
	}
	if at := slices.Index(wide[0], "WARM, NO LOAD"); wide[1][at] != "700 ms" {
		t.Errorf("without load: %q", wide[1][at])
	}
	if ends := Ends(someResults()); len(ends) != 3 || ends[1] != "* plumb-userspace at 44000 Services: warm restart: not finished within the limit" {
		t.Errorf("what ended: %q", ends)
	}
}
