package records

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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
			r, err := New(dir, slog.New(slog.DiscardHandler))
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

// A version that cannot be noted keeps nothing from serving, and is noted once it can be.
func TestVersionIsNoted(t *testing.T) {
	dir := t.TempDir()
	r, err := New(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, VersionFile)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Version("2.6.12")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"2.6.12", "3.0.1", "3.0.1"} {
		r.Version(v)
		if got, err := os.ReadFile(path); err != nil || string(got) != v+"\n" {
			t.Errorf("noted %q, %v, want %s", got, err, v)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A row that does not end is not kept, and the next that does is taken.
func TestRowWithoutEnd(t *testing.T) {
	r, err := New("", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const size = 64 << 20
	in := io.MultiReader(io.LimitReader(endless{}, size), strings.NewReader("\n<5>2026-01-02T03:04:05.678901+00:00 Proxy p started\n"))
	var taken []string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.read(in, source{}, func(_ source, l haproxy.Line) { taken = append(taken, l.Text) })
	runtime.ReadMemStats(&after)
	if d := cmp.Diff([]string{"Proxy p started"}, taken); d != "" {
		t.Errorf("taken (-want +got):\n%s", d)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > size/4 {
		t.Errorf("%d bytes were kept of a row of %d", got, size)
	}
}

// endless says x for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
