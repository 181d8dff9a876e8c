package main

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// endings remembers which endpoints serve while they terminate, of which there
// are few. A plan does not tell: to a dataplane they are as good as any it uses.
// The zero value is ready.
type endings struct {
	mu sync.Mutex
	in map[objects.Name]map[objects.Name][]netip.Addr // guarded by mu; by Service and slice
}

// note takes changes in, on their way to the Loop.
func (e *endings) note(changes []objects.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		switch {
		case c.Slice != nil:
			e.set(c.Slice.Service, c.Slice.Name, c.Slice.Endpoints)
		case c.Gone != nil && c.Gone.Kind == objects.KindSlice:
			e.set(c.Gone.Service, c.Gone.Name, nil)
		}
	}
}

// set is called with mu held.
func (e *endings) set(service, slice objects.Name, eps []objects.Endpoint) {
	var addrs []netip.Addr
	for _, ep := range eps {
		if ep.Terminating && ep.Serving && !ep.Ready {
			addrs = append(addrs, ep.Addr)
		}
	}
	if len(addrs) > 0 {
		if e.in == nil {
			e.in = map[objects.Name]map[objects.Name][]netip.Addr{}
		}
		if e.in[service] == nil {
			e.in[service] = map[objects.Name][]netip.Addr{}
		}
		e.in[service][slice] = addrs
		return
	}
	delete(e.in[service], slice)
	if len(e.in[service]) == 0 {
		delete(e.in, service)
	}
}

// all tells whether all endpoints of a route are terminating. A route uses only
// ready ones, or only these.
func (e *endings) all(service objects.Name, eps []plan.Endpoint) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ep := range eps {
		if !slices.ContainsFunc(slices.Collect(maps.Values(e.in[service])), func(as []netip.Addr) bool { return slices.Contains(as, ep.Addr) }) {
			return false
		}
	}
	return len(eps) > 0
}
