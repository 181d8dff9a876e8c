package lbprovider

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// Why there is no load balancer, besides a refusal.
var (
	errDeleted = errors.New("its load balancer was deleted")
	errNone    = errors.New("it has no load balancer")
)

// memory is what this process knows of one load balancer. It outlives the
// load balancer: an update that comes late must not bring it back. A process
// that starts finds the same in what runs and in the API (see sweep).
type memory struct {
	op sync.Mutex // held by the one operation that works on the load balancer

	// Guarded by balancer.mu.
	addrs    []netip.Addr         // reserved; kept until the load balancer is taken down
	spec     instance.Spec        // to start it again; no name: not known
	goal     lbplan.LB            // what it was last brought to
	drains   map[string]time.Time // when the connections of servers that are gone are ended
	leaving  map[string]bool      // servers that a change which has not succeeded yet takes away
	ending   bool                 // see endDrains
	unheard  haproxy.Unheard
	told     []netip.Addr // what ensure last returned, for the controller to publish
	ended    error        // why it must not exist: errDeleted, a refusal, its version; nil: it may
	reviving bool         // see revive
	looks    int          // that revive has left
}

// serving are those of addrs whose family reaches a node; called with mu held. A client
// that is told of another one is turned away there, instead of trying the next.
func (m *memory) serving(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !m.goal.Serves(lbplan.FamilyOf(a)) })
}

// remembered returns the memory of name; called with mu held.
func (b *balancer) remembered(name string) *memory {
	m, ok := b.known[name]
	if !ok {
		m = &memory{}
		b.known[name] = m
	}
	return m
}

// note changes the memory of name.
func (b *balancer) note(name string, change func(*memory)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b.remembered(name))
}

func (b *balancer) lock(name string) (unlock func()) {
	b.mu.Lock()
	m := b.remembered(name)
	b.mu.Unlock()
	m.op.Lock()
	return m.op.Unlock
}

// due returns the addresses that the load balancer of svc should be at while
// no HAProxy tells; none if it should not exist. svc may be older than what
// is remembered: the service controller keeps the object of its last sync.
func (b *balancer) due(svc *v1.Service) (addrs []netip.Addr, ended error) {
	b.note(b.name(svc), func(m *memory) { addrs, ended = m.addrs, m.ended })
	if len(addrs) == 0 && ended == nil {
		addrs = published(svc)
	}
	return addrs, ended
}

// isName says whether name is one that balancer.name makes.
func isName(name string) bool {
	h, ok := strings.CutPrefix(name, instance.NamePrefix)
	raw, err := hex.DecodeString(h)
	return ok && err == nil && len(raw) == instance.NameBytes && hex.EncodeToString(raw) == h
}
