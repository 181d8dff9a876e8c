package lbprovider

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// The order of rows and events is that of their arrival, "at" that of their
// happening, in seconds.
func TestEndOfContainer(t *testing.T) {
	const old, next = "plumbline-lb-00000000000a", "plumbline-lb-00000000000b"
	start := time.Now().Add(-time.Hour)
	after := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	type step struct {
		name string
		at   int
		what string // UP, DOWN, exit
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"in order", []step{{old, 1, "UP"}, {old, 2, "exit"}, {old, 4, "UP"}}, []string{"1 UP", "2 exit", "2 DOWN", "4 UP"}},
		{"exit told again, late", []step{{old, 1, "UP"}, {old, 2, "exit"}, {old, 4, "UP"}, {old, 2, "exit"}}, []string{"1 UP", "2 exit", "2 DOWN", "4 UP", "2 exit"}},
		{"exit told late", []step{{old, 1, "UP"}, {old, 4, "UP"}, {old, 2, "exit"}}, []string{"1 UP", "2 exit", "2 DOWN", "4 UP"}},
		{"exit of the former instance", []step{{old, 1, "UP"}, {next, 4, "UP"}, {old, 2, "exit"}}, []string{"1 UP", "4 UP", "2 exit"}},
		{"former instance ends later", []step{{old, 1, "UP"}, {next, 4, "DOWN"}, {old, 5, "exit"}}, []string{"1 UP", "4 DOWN", "5 exit", "5 DOWN"}},
		{"former instance ends beside the next", []step{{old, 1, "UP"}, {next, 4, "UP"}, {old, 5, "exit"}}, []string{"1 UP", "4 UP", "5 exit"}},
		{"former instance, long out of use, ends", []step{{old, 1, "UP"}, {old, 2, "DOWN"}, {next, 4, "UP"}, {old, 5, "exit"}}, []string{"1 UP", "2 DOWN", "4 UP", "5 exit"}},
		{"down anyway", []step{{old, 1, "DOWN"}, {old, 2, "exit"}}, []string{"1 DOWN", "2 exit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			r, err := NewRecorder(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.steps {
				if s.what == "exit" {
					r.Instance(instance.Event{Name: s.name, Service: "shop/web", Kind: instance.Ended, At: after(s.at)})
					continue
				}
				r.take(source{s.name, "shop/web"}, haproxy.Line{At: after(s.at), Server: &haproxy.ServerLine{Proxy: "p", Node: "n", Up: s.what == "UP"}})
			}
			zero := monotonic(start)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			events, err := record.ReadFile[record.Event](filepath.Join(dir, EventsFile))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprintf("%d %s", time.Duration(e.At-zero).Round(time.Second)/time.Second, e.State))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}
