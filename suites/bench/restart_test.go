//go:build linux

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/need"
)

// The agent is killed under load and started again at once, over and over. Rules of
// the kernel stay, so no connection through a ClusterIP or a node port may notice. What
// goes through the agent itself ends with it, and its successors tell of no less; new
// connections wait for one. One in eight goes past the dataplane and shows that the
// network was sound.
func TestKilledUnderLoad(t *testing.T) {
	need.Root(t)
	// 20 kills each. Those of userspace are shared out: clients wait for its successor, a
	// second and more each time, until their kernel sends its SYN again.
	for _, c := range []struct {
		row   string
		part  int
		kills int
	}{
		{"plumb-nftables", 1, 20}, {"plumb-iptables", 1, 20},
		{"plumb-userspace", 1, 5}, {"plumb-userspace", 2, 5}, {"plumb-userspace", 3, 5}, {"plumb-userspace", 4, 5},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.row, c.part), func(t *testing.T) {
			t.Parallel() // each has a network of its own
			name, kills := c.row, c.kills
			got, told := killed(t, name, kills)
			if got.ControlFailed > 0 {
				t.Fatalf("the network was not sound: %d of %d connections past the dataplane failed", got.ControlFailed, got.ControlSent)
			}
			if got.Sent < kills*300 || got.Long == 0 {
				t.Errorf("no more than %d connections and %d open ones", got.Sent, got.Long)
			}
			if name == "plumb-userspace" {
				// Of those that had been answered some were still open in the proxy.
				if lost := got.Broken + got.Failed; got.Failed > got.Cut || got.Broken < kills || told < got.Broken || told > lost+kills*loadWorkers {
					t.Errorf("%d of %d connections failed, %d of them accepted before, %d of %d open ones broke; its successors tell of %d; the first: %s", got.Failed, got.Sent, got.Cut, got.Broken, got.Long, told, got.First)
				}
			} else if got.Failed > 0 || got.Broken > 0 || told > 0 {
				t.Errorf("%d of %d connections failed, %d of %d open ones broke, its successors tell of %d; the first: %s", got.Failed, got.Sent, got.Broken, got.Long, told, got.First)
			}
			t.Logf("%d kills: %d connections, %d cut; %d open ones, %d broken; told of %d", kills, got.Sent, got.Cut, got.Long, got.Broken, told)
		})
	}
}

// lostWith is what an agent logs of the connections that ended with the one before.
var lostWith = regexp.MustCompile(`msg="connections of the previous process ended with it" tcp=(\d+) udp=0\n`) // const

// killed kills an agent a number of times, each time while connections are
// opened, and lets it follow a change before the next. It returns as well how many
// lost connections the agents have told of.
func killed(t *testing.T, name string, times int) (total Load, told int) {
	ctx, dir := t.Context(), workDir(t)
	rows, err := ParseRows(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Rows: rows, PlumbProxy: filepath.Join(dir, "plumb-proxy"), Limit: time.Minute, Work: dir, Logger: slog.New(slog.DiscardHandler)}
	buildProxy(t, cfg.PlumbProxy)
	w, err := newWorld(ctx, dir, api.New(api.Config{Logger: cfg.Logger}), cfg.Logger)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.patience = 20 * time.Second       // for the next agent; and a host may halt for a second
	w.oneSYN = rows[0].Shows != nowhere // with rules that stay nobody waits
	const services = 200
	if err := w.grow(services); err != nil {
		t.Fatal(err)
	}
	s := &subject{w: w, cfg: cfg, row: rows[0], n: services, out: &Result{}}
	if s.spec, err = w.spec(cfg, s.row); err != nil {
		t.Fatal(err)
	}
	if err := s.coldStart(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.end(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	l := w.load(ctx, services, 1, cfg.Limit)
	if l.reach(50); l.sent.Load() < 50 {
		t.Error("the load ended before what it is to disturb was over")
	}
	if _, err := l.wait(false); err != nil {
		t.Fatal(err)
	}
	for range times {
		_, got, err := s.restartUnderLoad(ctx, 400)
		if err != nil {
			t.Fatal(err)
		}
		if got.During == 0 && rows[0].Shows != nowhere { // others wait for it
			t.Error("no connection was opened while a new process took over")
		}
		total = total.plus(got)
	}
	said, err := os.ReadFile(s.agent.Log())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lostWith.FindAllSubmatch(said, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		told += n
	}
	return total, told
}

func TestValidate(t *testing.T) {
	ok := Config{Rows: Rows(), Sizes: []int{10, 20}, Limit: time.Minute}
	if err := ok.Validate(); err != nil {
		t.Error(err)
	}
	for name, mutate := range map[string]func(*Config){
		"no rows":     func(c *Config) { c.Rows = nil },
		"a row twice": func(c *Config) { c.Rows = append(c.Rows, c.Rows[0]) },
		"descending":  func(c *Config) { c.Sizes = []int{20, 10} },
		"one":         func(c *Config) { c.Sizes = []int{1} },
		"negative":    func(c *Config) { c.Changes = -1 },
		"no limit":    func(c *Config) { c.Limit = 0 },
		"no turn":     func(c *Config) { c.Rates = time.Millisecond },
	} {
		c := ok
		mutate(&c)
		if c.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := ParseRows("plumb-nftables,nonsense"); err == nil {
		t.Error("an unknown row is taken")
	}
}

func TestFirstApply(t *testing.T) {
	const head = "# HELP plumbline_services Services in the kernel.\n# TYPE plumbline_services gauge\nplumbline_services 3\n"
	const first = "# TYPE plumbline_first_sync_duration_seconds gauge\nplumbline_first_sync_duration_seconds "
	for text, want := range map[string]time.Duration{
		head + first + "0\n": 0, head + first + "0.0015\n": 1500 * time.Microsecond, head: -1, first + "soon\n": -1,
	} {
		if d, err := firstApply(strings.NewReader(text)); (err != nil) != (want < 0) || err == nil && d != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestTables(t *testing.T) {
	full := Result{
		Row: "plumb-nftables", Services: 1000, Cold: 1500 * time.Millisecond, Change: Spread{N: 3, Of: 3, P50: 900 * time.Microsecond, P99: 4 * time.Millisecond},
		Quiet: Spread{N: 1, Of: 1, P50: 700 * time.Millisecond}, QuietApply: 300 * time.Millisecond, Warm: Spread{N: 2, Of: 2, P50: 800 * time.Millisecond}, WarmApply: 400 * time.Millisecond,
		Ops: 2, RSS: 50 << 20, Peak: 60 << 20, Load: Load{Sent: 10, ControlSent: 2, Long: 1},
	}
	ended := Result{Row: "kube-proxy:iptables", Services: 44000, Ended: "cold start not finished after 5m0s"}
	want := "| plumb-nftables | 1000 | 1.5 s |  |  |  |  |  |  | 900 µs / 4 ms | 2 |  |  |  |  |  | 700 ms | 300 ms | 800 ms | 400 ms | 0 of 10; control 0 of 2; open ones broken 0 of 1 | 50 MiB (60) |"
	got := Markdown([]Result{full, ended}, "in a cage")
	for _, line := range []string{want, "| kube-proxy:iptables | 44000 | ended: cold start not finished after 5m0s |"} {
		if !strings.Contains(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	table, lacks, _ := strings.Cut(got, "\n\n")
	if lacks != "lacks: in a cage\n" {
		t.Errorf("under the table: %q", lacks)
	}
	for line := range strings.Lines(table) {
		if n := strings.Count(line, "|"); n != len(columns)+1 {
			t.Errorf("%d bars for %d columns: %s", n, len(columns), line)
		}
	}
	cut := Markdown([]Result{{Row: "slow", Change: Spread{N: 37, Of: 200, P50: time.Second, P99: 2 * time.Second}, Switch: Spread{Of: 50}, Warm: Spread{N: 1, Of: 5, P50: time.Second}}}, "")
	for _, cell := range []string{"| 1 s / 2 s (ended after 37 of 200) |", "| ended after 0 of 50 |", "| 1 s (ended after 1 of 5) |"} {
		if !strings.Contains(cut, cell) {
			t.Errorf("no cell %q in\n%s", cell, cut)
		}
	}
	stat := Benchstat([]Result{full})
	if !strings.Contains(stat, "BenchmarkChangeToKernel/dataplane=plumb-nftables/services=1000 3 900000 ns/op 4000000 p99-ns 2 ops") {
		t.Errorf("benchstat lines:\n%s", stat)
	}
	stat = Benchstat(someResults())
	for _, line := range []string{
		"BenchmarkConnectionCPU/from=client/dataplane=plumb-nftables/services=1000 1 180000 ns/op 9000 conns/s 12000 direct-conns/s 150000 direct-cpu-ns\n",
		"BenchmarkWarmRestartNoLoad/dataplane=plumb-nftables/services=1000 1 700000000 ns/op\n",
		"BenchmarkUDPConnectDirect/dataplane=plumb-nftables/services=1000 100000 2130 ns/op 910 more-ns\n",
	} {
		if !strings.Contains(stat, line) {
			t.Errorf("no line %q in\n%s", line, stat)
		}
	}
}
