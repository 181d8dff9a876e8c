package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plumbline/plumbline/fixtures/disrupt"
)

// together are the runs of one behaviour, one for each IP family, that go side by side. What they do to the cluster is
// done once, when all that have not ended have come to it, and undone when none uses it any more: agents that are
// stopped and started take the longest of all that behaviours do. All of them do the same, so one that fails keeps
// only its own kind waiting, and not for long (waitForOther).
type together struct {
	mu      sync.Mutex
	members int          // guarded by mu; that have not ended
	waiting int          // guarded by mu; of them, until an act is undone
	next    *act         // guarded by mu; that some have come to
	atEnd   func() error // guarded by mu; of the last to end
	broken  bool         // guarded by mu; something could not be undone
}

// alone is one that shares nothing.
func alone() *together { return &together{members: 1} }

// waitForOther is how long a run may be kept waiting by the other one, in all: after longer what it has set up is not as it
// was, such as flows that nobody uses, and streams that are to last. It is asked by itself then.
const waitForOther = 10 * time.Second

// act is what is done to the cluster once, for those who came to it.
type act struct {
	words string
	do    func() (disrupt.Undo, error)
	came  int           // guarded by together's mu, as users and left are
	users int           // that have not let go of it
	left  int           // that have, and wait until it is undone
	done  chan struct{} // closed when it was done; then there are:
	at    time.Time     // when that began
	back  disrupt.Undo
	err   error
	// undone is closed when it was undone, if it was done; then there are:
	undone  chan struct{}
	undoAt  time.Time // when that began
	undoErr error
}

// share returns when f was called for all members, and with what came of it.
func (t *together) share(words string, f func() (disrupt.Undo, error)) *act {
	t.mu.Lock()
	if t.next == nil {
		t.next = &act{words: words, do: f, done: make(chan struct{}), undone: make(chan struct{})}
	}
	a := t.next
	if a.words != words {
		t.mu.Unlock()
		err := fmt.Errorf("with the other IP family this behaviour comes to another act first: %s", a.words)
		return &act{users: 1, err: err, undone: make(chan struct{})}
	}
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
	t.next, a.users = nil, a.came
	return a
}

var errNoReturn = errors.New("what does it did not return")

func (a *act) begin() {
	if a == nil {
		return
	}
	a.at, a.err = time.Now(), errNoReturn
	defer close(a.done)
	a.back, a.err = a.do()
}

// letGo undoes the act if nobody else uses it. Who goes on waits until it is undone.
func (t *together) letGo(ctx context.Context, a *act, goesOn bool) error {
	t.mu.Lock()
	a.users--
	last := a.users == 0
	if !last && goesOn {
		a.left++
		t.waiting++
	}
	complete := t.complete()
	t.mu.Unlock()
	complete.begin()
	switch {
	case last:
		t.undo(ctx, a)
	case !goesOn:
		return nil
	}
	<-a.undone
	return a.undoErr
}

// undo is the last user's.
func (t *together) undo(ctx context.Context, a *act) {
	a.undoAt, a.undoErr = time.Now(), errNoReturn
	defer func() {
		t.mu.Lock()
		t.waiting -= a.left // at once: none of them comes to an act that the others begin
		t.broken = t.broken || a.undoErr != nil
		t.mu.Unlock()
		close(a.undone)
	}()
	if a.back == nil { // it was not done
		a.undoErr = nil
		return
	}
	a.undoErr = a.back(ctx)
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
	err := atEnd()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = t.broken || err != nil
	return err
}
