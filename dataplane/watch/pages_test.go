package watch_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/fixtures/api"
)

// The lists of a server that does not stream them.

// asked remembers what lists of slices were asked for, and does something before some.
type asked struct {
	http.RoundTripper

	mu     sync.Mutex
	lists  []string             // guarded by mu
	before func(continued bool) // guarded by mu; nil: nothing
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); strings.HasSuffix(r.URL.Path, "/endpointslices") && r.Method == http.MethodGet && q.Get("watch") == "" {
		a.mu.Lock()
		a.lists = append(a.lists, fmt.Sprintf("limit=%s continued=%t version=%s", q.Get("limit"), q.Has("continue"), q.Get("resourceVersion")))
		if a.before != nil {
			a.before(q.Has("continue"))
		}
		a.mu.Unlock()
	}
	return a.RoundTripper.RoundTrip(r)
}

// take returns what was asked for since the last time, and sets what is done from now on.
func (a *asked) take(before func(continued bool)) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.lists
	a.lists, a.before = nil, before
	return strings.Join(out, "\n")
}

const (
	first = "limit=500 continued=false version="
	more  = "limit=500 continued=true version="
)

// inPages starts a server without WatchList.
func inPages(t *testing.T) (*api.Server, *rest.Config, *asked) {
	t.Helper()
	s, cfg := serveAs(t, api.Config{NoWatchList: true})
	a := &asked{}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { a.RoundTripper = rt; return a })
	return s, cfg, a
}

// addMany adds 1 100 slices: three pages.
func addMany(t *testing.T, s *api.Server) {
	t.Helper()
	for n := range 1100 {
		must(t, s.Apply(slice(fmt.Sprintf("c-%04d", n), "c")))
	}
}

// A first list and a later one are asked for in pages, of the newest: with a version the server
// would answer with all at once (0), or with what was.
func TestPages(t *testing.T) {
	s, cfg, a := inPages(t)
	addMany(t, s)
	got := run(t, clientOf(t, cfg), record.NewFakeRecorder(10))
	if n := len(next(t, got)); n != 1106 {
		t.Fatalf("the first delivery is %d objects, want 1106", n)
	}
	pages := strings.Join([]string{first, more, more}, "\n")
	if diff := cmp.Diff(pages, a.take(nil)); diff != "" {
		t.Errorf("the first list (-want +got):\n%s", diff)
	}
	s.SetOutage(api.Refused)
	must(t, s.Delete(api.EndpointSlices, "ns/c-0001"))
	must(t, s.Apply(slice("d-1", "d")))
	s.Compact(api.EndpointSlices)
	s.SetOutage(api.None)
	if text, want := upTo(t, got, "slice d-1 of d", "gone 2 c-0001 of c"), "gone 2 c-0001 of c, slice d-1 of d"; text != want {
		t.Errorf("after the second list: %s, want %s", text, want)
	}
	if lists := a.take(nil); !strings.HasSuffix(lists, pages) { // the outage has ended some
		t.Errorf("a later list:\n%s, want\n%s", lists, pages)
	}
}

// So is a list that has grown since the first, which was one page.
func TestMorePagesLater(t *testing.T) {
	s, cfg, a := inPages(t)
	got := run(t, clientOf(t, cfg), record.NewFakeRecorder(10))
	if n := len(next(t, got)); n != 6 {
		t.Fatalf("the first delivery is %d objects, want 6", n)
	}
	if diff := cmp.Diff(first, a.take(nil)); diff != "" {
		t.Errorf("the first list (-want +got):\n%s", diff)
	}
	s.SetOutage(api.Refused)
	addMany(t, s)
	s.Compact(api.EndpointSlices)
	s.SetOutage(api.None)
	upTo(t, got, "slice c-1099 of c")
	if lists, pages := a.take(nil), strings.Join([]string{first, more, more}, "\n"); !strings.HasSuffix(lists, pages) {
		t.Errorf("a later list:\n%s, want\n%s", lists, pages)
	}
}

// A list that expires between two pages is made again: nothing of what it had so far is handed
// on, nor is what it had not taken away.
func TestPageExpires(t *testing.T) {
	s, cfg, a := inPages(t)
	addMany(t, s)
	between := func(name string) func(bool) { // two pages, once
		var once sync.Once
		return func(continued bool) {
			if continued {
				once.Do(func() {
					if err := s.Delete(api.EndpointSlices, "ns/"+name); err != nil {
						t.Error(err)
					}
					s.Compact(api.EndpointSlices)
				})
			}
		}
	}
	a.take(between("c-0001"))
	got := run(t, clientOf(t, cfg), record.NewFakeRecorder(10))
	if n := len(next(t, got)); n != 1105 {
		t.Fatalf("the first delivery is %d objects, want 1105: each once, and not the one deleted while pages came", n)
	}
	again := strings.Join([]string{first, more, "limit= continued=false version=0"}, "\n")
	if diff := cmp.Diff(again, a.take(between("c-0002"))); diff != "" {
		t.Errorf("the first list (-want +got):\n%s", diff)
	}
	s.Compact(api.EndpointSlices)
	s.CutWatches(api.EndpointSlices)
	must(t, s.Apply(slice("d-1", "d")))
	if text, want := upTo(t, got, "slice d-1 of d", "gone 2 c-0002 of c"), "gone 2 c-0002 of c, slice d-1 of d"; text != want {
		t.Errorf("after the second list: %s, want %s", text, want)
	}
}
