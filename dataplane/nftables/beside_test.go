package nftables

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lib "github.com/google/nftables"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// foreigner commits to tables of its own, so often or as fast as it can: in each commit some
// elements, a set and a chain of which some come and some go. It returns the number of commits
// so far; the longest of them is in longest.
func foreigner(t testing.TB, ns *netns.NS, elements int, every time.Duration, longest *atomic.Int64) func() int64 {
	t.Helper()
	c, err := lib.New(lib.WithNetNSFd(ns.FD()), lib.AsLasting())
	if err != nil {
		t.Fatal(err)
	}
	table := c.AddTable(&lib.Table{Family: lib.TableFamilyIPv4, Name: "foreign"})
	set := &lib.Set{Table: table, Name: "s", KeyType: lib.TypeIPAddr}
	if err := c.AddSet(set, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	var some []lib.SetElement
	for i := range elements {
		some = append(some, lib.SetElement{Key: binary.BigEndian.AppendUint32(nil, uint32(i))})
	}
	var commits atomic.Int64
	stop, done := make(chan struct{}), make(chan error, 1)
	commit := func(n int) error {
		name := fmt.Sprint("c", n/2)
		if n%2 == 0 {
			c.AddChain(&lib.Chain{Name: name, Table: table})
			if err := c.SetAddElements(set, some); err != nil {
				return err
			}
			return c.Flush()
		}
		c.DelChain(&lib.Chain{Name: name, Table: table})
		if err := c.SetDeleteElements(set, some); err != nil {
			return err
		}
		return c.Flush()
	}
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- c.CloseLasting()
				return
			default:
				time.Sleep(every)
			}
			begin := time.Now()
			if err := commit(n); err != nil {
				done <- fmt.Errorf("commit %d: %w", n, err)
				return
			}
			longest.Store(max(longest.Load(), int64(time.Since(begin))))
			commits.Add(1)
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Error("the foreigner:", err)
		}
	})
	return commits.Load
}

// Restarts succeed, and changes are applied, while somebody else commits to nftables all
// the time: what is not about our tables does not make a dump wrong.
func TestBesideForeignCommits(t *testing.T) {
	for _, elements := range []int{1, 2000} {
		t.Run(fmt.Sprintf("elements=%d", elements), func(t *testing.T) {
			ns := netns.ForTest(t, "beside")
			p := some(2000, 10, 1)
			if err := newTest(t, ns).takeOver(p); err != nil {
				t.Fatal(err)
			}
			commits := foreigner(t, ns, elements, 0, new(atomic.Int64))
			// A restart beside which nobody has committed anything says nothing.
			for i, beside := 0, 0; beside < 5; i++ {
				if i == 50 {
					t.Fatalf("%d of %d restarts were beside commits, want 5", beside, i)
				}
				target := newTest(t, ns)
				before, begin := commits(), time.Now()
				if err := target.takeOver(p); err != nil {
					t.Fatalf("restart %d: %v", i, err)
				}
				took, meanwhile := time.Since(begin), commits()-before
				if meanwhile >= 3 {
					beside++
				}
				next := some(2000, 10, byte(2+i))
				if err := target.Apply(t.Context(), p, next); err != nil {
					t.Fatalf("change %d: %v", i, err)
				}
				p = next
				out, err := Dump(ns.FD())
				if diff := cmp.Diff(Render(p), out); diff != "" || err != nil {
					t.Fatalf("kernel after change %d (-want +got), %v:\n%s", i, err, diff)
				}
				t.Logf("restart in %s, beside %d foreign commits", took, meanwhile)
			}
		})
	}
}

// Changes at 20 a second and five restarts of the agent beside somebody else's commits. Ten
// minutes are
//
//	go test -run - -bench Beside -benchtime 12000x -timeout 1h ./dataplane/nftables
func BenchmarkBeside(b *testing.B) {
	for _, other := range []struct {
		name     string
		elements int
		every    time.Duration
	}{{"nobody", 0, 0}, {"a commit every 50 ms", 10, 50 * time.Millisecond}, {"10000 elements a second", 10000, time.Second}} {
		b.Run(other.name, func(b *testing.B) {
			ns := netns.ForTest(b, "beside")
			p := some(2000, 10, 1)
			target := New(Config{Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD()})
			defer func() { _ = target.Close() }()
			if err := target.Apply(b.Context(), nil, p); err != nil {
				b.Fatal(err)
			}
			var longest atomic.Int64
			if other.every > 0 {
				foreigner(b, ns, other.elements, other.every, &longest)
			}
			var took, restarts []time.Duration
			begin, tick := time.Now(), time.NewTicker(50*time.Millisecond)
			defer tick.Stop()
			for i := range b.N {
				<-tick.C
				n := objects.Name{Namespace: "ns", Name: fmt.Sprint(i % 2000)}
				old, changed := with(p, n, p.Services[n]), with(p, n, moved(p.Services[n], i))
				begin := time.Now()
				if err := target.Apply(b.Context(), old, changed); err != nil {
					b.Fatalf("change %d: %v", i, err)
				}
				took = append(took, time.Since(begin))
				maps.Copy(p.Services, changed.Services)
				if b.N >= 6 && (i+1)%(b.N/6) == 0 && len(restarts) < 5 {
					_ = target.Close()
					target = New(Config{Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD()})
					begin := time.Now()
					if err := target.Apply(b.Context(), nil, p); err != nil {
						b.Fatalf("restart %d: %v", len(restarts), err)
					}
					restarts = append(restarts, time.Since(begin))
				}
			}
			report := func(name string, d time.Duration) { b.ReportMetric(float64(d)/1e6, name) }
			slices.Sort(took)
			report("p50-ms", took[len(took)/2])
			report("p99-ms", took[len(took)*99/100])
			report("max-ms", took[len(took)-1])
			if len(restarts) > 0 {
				report("restart-max-ms", slices.Max(restarts))
			}
			report("foreign-max-ms", time.Duration(longest.Load()))
			b.ReportMetric(time.Since(begin).Seconds(), "s")
			if diff := cmp.Diff(Render(p), must(Dump(ns.FD()))); diff != "" {
				b.Errorf("kernel (-want +got):\n%s", diff)
			}
		})
	}
}

// with is a part of a plan: one Service.
func with(p *plan.Plan, n objects.Name, s plan.Service) *plan.Plan {
	return &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{n: s}}
}

// moved is a Service with another first endpoint.
func moved(s plan.Service, i int) plan.Service {
	f := s.Frontends[0]
	f.Outside.Endpoints = slices.Clone(f.Outside.Endpoints)
	f.Outside.Endpoints[0].Addr = netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
	return plan.Service{Frontends: []plan.Frontend{f}}
}

func must(text string, err error) string {
	if err != nil {
		return err.Error()
	}
	return text
}
