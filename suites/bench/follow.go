//go:build linux

package bench

import (
	"net/netip"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/api"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// edit is a change of endpoints behind frontends. The one that goes may be none.
type edit struct {
	keys  []plan.Key
	gone  netip.Addr
	fresh []netip.Addr
}

// follower sees what the kernel gets of a row's changes.
type follower interface {
	// reset begins a new count, for a change that is about to be written.
	reset(e edit) error
	// settle waits until the change is in the kernel, at most until a deadline or until over says
	// why it will not come.
	settle(deadline time.Time, over func() error) (seen, error)
	// look has the endpoints seen that somebody awaits, until the next call.
	look(a *await) error
	failed() error // why what was seen is not all there was
	Close() error
}

// seen is a count.
type seen struct {
	ops, commits int
	last         time.Time // the last of them
	overrun      bool
}

// follow begins to follow a row in a node.
func follow(r Row, node *netns.NS) (follower, error) {
	if r.Shows == inMaps {
		return &pinnedMaps{node: node}, nil
	}
	return newMonitor(node)
}

// keys are the frontends of a Service.
func keys(i int) []plan.Key {
	out := []plan.Key{{Addr: vip(i), Protocol: planProtocol(i), Port: servicePort}}
	if p := nodePort(i); p != 0 {
		out = append(out, plan.Key{Protocol: planProtocol(i), Port: p})
	}
	return out
}

// edit replaces a Service's first endpoint.
func (w *world) edit(i int) (api.Object, edit) {
	old := w.generation[i]
	return w.next(i), edit{keys: keys(i), gone: replaced(i, old), fresh: []netip.Addr{replaced(i, old+1)}}
}
