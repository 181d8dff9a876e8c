package agent

import (
	"sync"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// feed joins sources of changes and hands on nothing before each of them has said
// all it knows, which is its first call: the Loop's first call must bring the
// complete state.
type feed struct {
	sink func([]objects.Change)

	mu      sync.Mutex
	silent  int              // guarded by mu; sources that have not called yet
	pending []objects.Change // guarded by mu
}

// source is for one more of them. All must be asked for before the first is used.
func (f *feed) source() func([]objects.Change) {
	f.silent++
	first := true
	return func(c []objects.Change) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if first {
			first = false
			f.silent--
		}
		f.pending = append(f.pending, c...)
		if f.silent == 0 {
			f.sink(f.pending)
			f.pending = nil
		}
	}
}
