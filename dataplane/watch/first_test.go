package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// The first call has all lists that are waited for: neither what comes between them nor a list
// that is not (ServiceCIDRs that are to be seen later) stands for one of them.
func TestFirstCall(t *testing.T) {
	var calls []int
	w := New(Config{Sink: func(c []objects.Change) { calls = append(calls, len(c)) }})
	w.missing = map[objects.Kind]bool{objects.KindService: true, objects.KindSlice: true, objects.KindNode: true}
	some := func(n int) []objects.Change { return make([]objects.Change, n) }
	for _, do := range []func(){
		func() { w.list(objects.KindServiceCIDR, some(1)) },
		func() { w.list(objects.KindService, some(2)) },
		func() { w.note(some(4)...) },
		func() { w.list(objects.KindService, some(8)) }, // its watch expired
		func() { w.list(objects.KindNode, some(16)) },
	} {
		if do(); len(calls) > 0 {
			t.Fatalf("called with %d changes before all lists are in", calls)
		}
	}
	w.list(objects.KindSlice, nil)
	w.list(objects.KindSlice, nil) // nothing new
	w.note(some(1)...)
	if diff := cmp.Diff([]int{31, 1}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	w.ended = true
	if w.note(some(1)...); len(calls) > 2 {
		t.Error("called after the end")
	}
}
