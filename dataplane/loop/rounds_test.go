package loop

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

func gone(c objects.Change) objects.Change {
	if c.Slice != nil {
		return objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: c.Slice.Name, Service: c.Slice.Service}}
	}
	return objects.Change{Gone: &objects.Gone{Kind: objects.KindService, Name: c.Service.Name}}
}

// Who observes hears of each round what it was, how long it took and how long its first change had waited.
func TestRounds(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		var mu sync.Mutex // guards got
		var got []Round
		l.cfg.Observe = func(r Round) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r)
		}
		w.took = 10 * time.Millisecond
		l.Handle([]objects.Change{node(), svc(1), svc(2), slice(1, true)})
		time.Sleep(4 * time.Millisecond)
		l.Handle([]objects.Change{slice(1, false)})
		time.Sleep(time.Millisecond)
		l.Handle([]objects.Change{slice(1, true)})
		time.Sleep(time.Second)
		w.fail = 1
		l.Handle([]objects.Change{slice(2, true)})
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		const ms = time.Millisecond
		if diff := cmp.Diff([]Round{
			{Services: 2, Complete: true, Took: 10 * ms},
			{Services: 1, Waited: 10 * ms, Took: 10 * ms}, // since the round began that it came in
			{Services: 1, Took: 10 * ms, Failed: true},
			{Services: 2, Complete: true, Waited: 110 * ms, Took: 10 * ms},
		}, got); diff != "" {
			t.Errorf("rounds (-want +got):\n%s", diff)
		}
	})
}

// Only Services and slices are counted, those that go like those that come.
func TestSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, _ *world) {
		cidr := objects.Change{ServiceCIDR: &objects.ServiceCIDR{Name: "a"}}
		l.Handle([]objects.Change{node(), svc(1), slice(1, true), cidr})
		for _, c := range []struct {
			what string
			c    objects.Change
			want Changes
		}{
			{"nothing", objects.Change{}, Changes{1, 1}},
			{"a ServiceCIDR goes", objects.Change{Gone: &objects.Gone{Kind: objects.KindServiceCIDR, Name: objects.Name{Name: "a"}}}, Changes{1, 1}},
			{"the Node goes", objects.Change{Gone: &objects.Gone{Kind: objects.KindNode, Name: objects.Name{Name: "here"}}}, Changes{1, 1}},
			{"a slice goes", gone(slice(1, true)), Changes{1, 2}},
			{"a Service goes", gone(svc(1)), Changes{2, 2}},
		} {
			l.Handle([]objects.Change{c.c})
			if got := l.Status().Seen; got != c.want {
				t.Errorf("%s: %+v seen, want %+v", c.what, got, c.want)
			}
		}
	})
}

// What was told of a Service is told again of the next one of that name.
func TestToldAgain(t *testing.T) {
	odd := slice(2, true)
	odd.Slice.Endpoints[0].Addr = svc(1).Service.ClusterIPs[0]
	one, rival := svc(1), svc(2)
	one.Service.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	rival.Service.ExternalIPs, rival.Service.Created = one.Service.ExternalIPs, 1
	for name, c := range map[string]struct {
		first, second objects.Change
		want          string
	}{"odd": {svc(2), odd, "ns/2 EndpointIsServiceAddress"}, "a rival": {rival, slice(2, true), "ns/2 AddressClaimedTwice"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *Loop, w *world) {
				l.Handle([]objects.Change{node(), one})
				for range 2 {
					l.Handle([]objects.Change{c.first, c.second})
					synctest.Wait()
					if told := w.take(); strings.Count(told, c.want) != 1 {
						t.Errorf("want one of %s:\n%s", c.want, told)
					}
					l.Handle([]objects.Change{gone(c.first)})
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// A frontend that was refused is forgotten with its Service, also where the word of that came when the
// kernel's state was not known.
func TestRefusedIsForgotten(t *testing.T) {
	for name, fail := range map[string]int{"at once": 0, "after a failure": 1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, l *Loop, w *world) {
				refused := func() (n int) {
					if err := l.Inspect(t.Context(), func(_ *plan.Plan, refused map[plan.Key]error) { n = len(refused) }); err != nil {
						t.Fatal(err)
					}
					return n
				}
				w.no = map[plan.Key]error{{Addr: netip.MustParseAddr("10.96.0.2"), Protocol: objects.TCP, Port: 80}: errors.New("too long")}
				l.Handle([]objects.Change{node(), svc(1), svc(2)})
				synctest.Wait()
				if n := refused(); n != 1 {
					t.Fatalf("%d refused, want one", n)
				}
				w.fail = fail
				l.Handle([]objects.Change{gone(svc(2))})
				time.Sleep(time.Second)
				if n := refused(); n != 0 {
					t.Errorf("%d refused of nothing", n)
				}
			})
		})
	}
}
