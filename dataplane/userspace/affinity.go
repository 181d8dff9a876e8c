package userspace

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// affinity remembers which endpoint a source had last. It is lost with the
// process. Safe for concurrent use.
type affinity struct {
	mu    sync.Mutex
	had   map[visitor]memory // guarded by mu
	swept time.Time          // guarded by mu
}

type visitor struct {
	src   netip.Addr
	group plan.Key
}

type memory struct {
	to    netip.AddrPort
	until time.Time
}

// mostMemories bounds the memory: beyond it, new sources have no affinity until
// old ones are forgotten.
const mostMemories = 1 << 20

// choose picks a destination of an outcome that forwards: the remembered one if
// it still is a destination, else one by chance, each as likely as any other. The
// memory's time begins anew with every choice.
func (a *affinity) choose(src netip.Addr, out plan.Outcome, now time.Time) plan.Destination {
	picked := out.To[rand.IntN(len(out.To))]
	if out.Affinity == 0 {
		return picked
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sweep(now)
	at := visitor{src, out.Group}
	last, known := a.had[at]
	if known && now.Before(last.until) {
		for _, d := range out.To {
			if addrPort(d.Endpoint) == last.to {
				picked = d
			}
		}
	}
	if known || len(a.had) < mostMemories {
		a.had[at] = memory{addrPort(picked.Endpoint), now.Add(out.Affinity)}
	}
	return picked
}

// sweep forgets what has expired, once a minute.
func (a *affinity) sweep(now time.Time) {
	if a.had == nil {
		a.had = map[visitor]memory{}
	}
	if now.Sub(a.swept) < time.Minute {
		return
	}
	a.swept = now
	for k, m := range a.had {
		if !now.Before(m.until) {
			delete(a.had, k)
		}
	}
}

func addrPort(e plan.Endpoint) netip.AddrPort { return netip.AddrPortFrom(e.Addr, e.Port) }
