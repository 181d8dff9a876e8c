package loop

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// What slices were written for comes with the round that has them in the kernel, once, also if
// the rounds before failed; changes are counted when they come and when they are in.
func TestTriggers(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Loop, w *world) {
		var mu sync.Mutex // guards got
		var got []string
		begin := time.Now()
		l.cfg.Observe = func(r Round) {
			text := fmt.Sprintf("failed %t:", r.Failed)
			for _, tr := range r.Triggers {
				text += fmt.Sprintf(" %s ip6=%t", tr.At.Sub(begin), tr.IPv6)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, text)
		}
		at := func(c objects.Change, s int) objects.Change {
			c.Triggered = begin.Add(time.Duration(s) * time.Second)
			return c
		}
		want := func(what string, seen, done Changes, rounds ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(rounds, got); diff != "" {
				t.Errorf("%s: rounds (-want +got):\n%s", what, diff)
			}
			if s := l.Status(); s.Seen != seen || s.Done != done {
				t.Errorf("%s: %+v seen and %+v done, want %+v and %+v", what, s.Seen, s.Done, seen, done)
			}
			got = nil
		}
		l.Handle([]objects.Change{node(), svc(1), at(slice(1, true), 1)})
		want("the start", Changes{1, 1}, Changes{1, 1}, "failed false: 1s ip6=false")
		w.fail = 2
		l.Handle([]objects.Change{at(slice(1, false), 2)})
		want("a failure", Changes{1, 2}, Changes{1, 1}, "failed true:")
		l.Handle([]objects.Change{at(slice(1, true), 3), svc(2), slice(2, true)})
		want("changes that wait for it", Changes{2, 4}, Changes{1, 1})
		time.Sleep(time.Second)
		want("when they are in", Changes{2, 4}, Changes{2, 4}, "failed true:", "failed false: 2s ip6=false 3s ip6=false")
		v6 := at(slice(2, true), 4)
		v6.Slice.Endpoints[0].Addr = netip.MustParseAddr("fd00::1")
		queued := time.Now()
		l.Handle([]objects.Change{v6, {Gone: &objects.Gone{Kind: objects.KindService, Name: objects.Name{Namespace: "ns", Name: "1"}}}})
		time.Sleep(refill) // for one of the family of before
		want("another family", Changes{3, 5}, Changes{3, 5}, "failed false: 4s ip6=true")
		if s := l.Status(); !s.Queued.Equal(queued) {
			t.Errorf("queued at %s, want %s", s.Queued, queued)
		}
		empty := at(slice(2, true), 5)
		empty.Slice.Endpoints = nil
		l.Handle([]objects.Change{empty})
		time.Sleep(refill)
		want("no endpoint", Changes{3, 6}, Changes{3, 6}, "failed false: 5s ip6=false")
	})
}
