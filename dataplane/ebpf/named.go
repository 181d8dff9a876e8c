package ebpf

import (
	"iter"
	"net/netip"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// named are the endpoints that some TCP frontend names, in whatever state, and those that none does any more.
// One that is unready is not gone: its connections may be all that works. What was never named is not gone
// either, so a start makes none.
type named struct {
	left chan struct{} // some went; holds one

	mu    sync.Mutex
	users map[netip.AddrPort]int       // guarded by mu; frontends that name it
	gone  map[netip.AddrPort]time.Time // guarded by mu; since when
}

func newNamed() *named {
	return &named{left: make(chan struct{}, 1), users: map[netip.AddrPort]int{}, gone: map[netip.AddrPort]time.Time{}}
}

// follow takes a change that Apply has made; a nil old stands for all there was.
func (n *named) follow(old, new *plan.Plan, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.users
	if old == nil {
		n.users = map[netip.AddrPort]int{}
	} else {
		was = map[netip.AddrPort]int{}
		for a := range endpointsOfTCP(old) {
			was[a]++
			n.users[a]--
		}
	}
	for a := range endpointsOfTCP(new) {
		n.users[a]++
		delete(n.gone, a)
	}
	for a := range was {
		if n.users[a] <= 0 {
			delete(n.users, a)
			n.gone[a] = now
		}
	}
	if len(n.gone) > 0 {
		select {
		case n.left <- struct{}{}:
		default:
		}
	}
}

// forgotten is how long it is tried to do what is due.
const forgotten = 10 * time.Minute

// due are those that have been gone for so long, until done is told of them, and in what time there are more; 0: none
// are left.
func (n *named) due(now time.Time, grace time.Duration) (out map[netip.AddrPort]bool, next time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out = map[netip.AddrPort]bool{}
	for a, since := range n.gone {
		rest := grace - now.Sub(since)
		switch {
		case rest <= -forgotten:
			delete(n.gone, a)
		case rest <= 0:
			out[a] = true
		case next == 0 || rest < next:
			next = rest
		}
	}
	return out, next
}

// isGone tells whether one has not come back meanwhile.
func (n *named) isGone(a netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, is := n.gone[a]
	return is
}

// done forgets those that were due.
func (n *named) done(due map[netip.AddrPort]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a := range due {
		delete(n.gone, a)
	}
}

// endpointsOfTCP are those of all states, as often as a frontend names them.
func endpointsOfTCP(p *plan.Plan) iter.Seq[netip.AddrPort] {
	return func(yield func(netip.AddrPort) bool) {
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				if f.Key.Protocol != objects.TCP {
					continue
				}
				all := [][]plan.Endpoint{f.Outside.Endpoints, f.Draining, f.Unready}
				if f.Inside != nil {
					all = append(all, f.Inside.Endpoints)
				}
				for _, eps := range all {
					for _, e := range eps {
						if !yield(netip.AddrPortFrom(e.Addr, e.Port)) {
							return
						}
					}
				}
			}
		}
	}
}
