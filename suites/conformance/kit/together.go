package kit

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/plumbline/plumbline/fixtures/disrupt"
)

// together are the runs of one behaviour, one for each IP family, that go side by side. What they do to the cluster is
// done once, when all that have not ended have come to it, and undone when none uses it any more: agents that are
// stopped and started take the longest of all that behaviours do. All of them do the same, so one that fails keeps
// only its own kind waiting.
type together struct {
	mu      sync.Mutex
	members int          // guarded by mu; that have not ended
	waiting int          // guarded by mu; of them, until an act is undone
	next    *act         // guarded by mu; that some have come to
	atEnd   func() error // guarded by mu; of the last to end
}

// alone is one that shares nothing.
func alone() *together { return &together{members: 1} }

// act is what is done to the cluster once, for those who came to it.
type act struct {
	do     func() (disrupt.Undo, error)
	came   int
	done   chan struct{} // closed when back and err are there
	back   disrupt.Undo
	err    error
	users  atomic.Int32  // that have not let go of it
	undone chan struct{} // closed when undoErr is there
	// undoErr is how it was undone.
	undoErr error
}

// share returns when f was called for all members, and with what came of it.
func (t *together) share(f func() (disrupt.Undo, error)) *act {
	t.mu.Lock()
	if t.next == nil {
		t.next = &act{do: f, done: make(chan struct{}), undone: make(chan struct{})}
	}
	a := t.next
	a.came++
	complete := t.complete()
	t.mu.Unlock()
	complete.begin()
	<-a.done // each of the others comes, or ends
	return a
}

// complete is the next act if nobody is to come to it any more. It is called with mu held.
func (t *together) complete() *act {
	a := t.next
	if a == nil || a.came+t.waiting < t.members {
		return nil
	}
	t.next = nil
	return a
}

func (a *act) begin() {
	if a == nil {
		return
	}
	a.users.Store(int32(a.came))
	a.back, a.err = a.do()
	close(a.done)
}

// letGo undoes the act if nobody uses it any more.
func (a *act) letGo(ctx context.Context) error {
	if a.users.Add(-1) > 0 {
		return nil
	}
	a.undoErr = a.back(ctx)
	close(a.undone)
	return a.undoErr
}

// awaitUndone returns when an act that was let go of is undone.
func (t *together) awaitUndone(a *act) error {
	t.wait(1)
	<-a.undone
	t.wait(-1)
	return a.undoErr
}

// wait notes that so many members more come to no act for now.
func (t *together) wait(more int) {
	t.mu.Lock()
	t.waiting += more
	complete := t.complete()
	t.mu.Unlock()
	complete.begin()
}

// whenAllEnded has f called by the last member that ends, once however many ask for it.
func (t *together) whenAllEnded(f func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.atEnd = f
}

// leave is the end of a member.
func (t *together) leave() error {
	t.mu.Lock()
	t.members--
	complete, atEnd := t.complete(), t.atEnd
	if t.members > 0 {
		atEnd = nil
	}
	t.mu.Unlock()
	complete.begin()
	if atEnd == nil {
		return nil
	}
	return atEnd()
}
