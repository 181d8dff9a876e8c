package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// state is what the maps hold.
type state struct {
	config   plumbConfig
	networks map[netip.Prefix]uint32
	classes  map[netip.Addr]uint32
	fronts   map[plumbFrontendKey]plumbFrontend
	slots    map[uint32]map[uint32]plan.Endpoint // by list and number
	members  map[uint32]map[place]uint32         // by list
	sources  map[uint32]map[netip.Prefix]bool    // by number
}

// batch is how many entries are asked for at a time.
const batch = 4096

// entries calls f with every entry of a hash map, of which nobody else adds or deletes any.
func entries[K comparable, V any](m *ebpf.Map, f func(K, V)) error {
	keys, vals := make([]K, batch), make([]V, batch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, vals, nil)
		for i := range n {
			f(keys[i], vals[i])
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("read map: %w", err)
		}
	}
}

// read reads everything but connections and clients.
func read(m *plumbMaps) (*state, error) {
	s := &state{
		networks: map[netip.Prefix]uint32{}, classes: map[netip.Addr]uint32{}, fronts: map[plumbFrontendKey]plumbFrontend{},
		slots: map[uint32]map[uint32]plan.Endpoint{}, members: map[uint32]map[place]uint32{}, sources: map[uint32]map[netip.Prefix]bool{},
	}
	err := m.PlumbConfig.Lookup(uint32(0), &s.config)
	for name, part := range map[string]func() error{
		"networks": func() error {
			return entries(m.PlumbNetworks, func(k plumbNetworkKey, v uint32) { s.networks[toPrefix(k.Addr, k.Bits)] = v })
		},
		"addresses": func() error {
			return entries(m.PlumbAddrs, func(k plumbAddr, v uint32) { s.classes[fromAddr(k)] = v })
		},
		"frontends": func() error {
			return entries(m.PlumbFronts, func(k plumbFrontendKey, v plumbFrontend) { s.fronts[k] = v })
		},
		"slots": func() error {
			return entries(m.PlumbSlots, func(k plumbSlotKey, v plumbEndpoint) {
				within(s.slots, k.List)[k.Index] = fromPlace(place{v.Addr, v.Port}, v.Flags)
			})
		},
		"members": func() error {
			return entries(m.PlumbMembers, func(k plumbMemberKey, v uint32) { within(s.members, k.List)[place{k.Addr, k.Port}] = v })
		},
		"sources": func() error {
			return entries(m.PlumbSources, func(k plumbSourceKey, _ uint32) {
				within(s.sources, k.Sources)[toPrefix(k.Addr, k.Bits-32)] = true
			})
		},
	} {
		if e := part(); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the maps back: %w", err)
	}
	return s, nil
}

func within[K, L comparable, V any](m map[K]map[L]V, k K) map[L]V {
	if m[k] == nil {
		m[k] = map[L]V{}
	}
	return m[k]
}

// frontend is one as the maps have it, its endpoints in the order of their slots.
func (s *state) frontend(k plumbFrontendKey) plan.Frontend {
	v := s.fronts[k]
	out := plan.Frontend{
		Key: fromKey(k), Kind: plan.Kind(v.ServiceKind), Outside: s.route(v.Routes[0]),
		Restricted: v.Flags&frontendRestricted != 0, Affinity: time.Duration(v.Affinity) * time.Second,
		Group: plan.Key{Addr: fromAddr(v.Group), Protocol: objects.Protocol(v.GroupProto), Port: swapped(v.GroupPort)},
	}
	out.Group.IPv6 = out.Group.Addr.Is6()
	if v.Flags&frontendHasInside != 0 {
		in := s.route(v.Routes[1])
		out.Inside = &in
	}
	if out.Restricted {
		out.Sources = slices.SortedFunc(maps.Keys(s.sources[v.Sources]), netip.Prefix.Compare)
	}
	for at, flags := range s.members[v.Draining] {
		out.Draining = append(out.Draining, fromPlace(at, uint16(flags)))
	}
	slices.SortFunc(out.Draining, plan.Endpoint.Compare)
	return out
}

func (s *state) route(r plumbRoute) plan.Route {
	out := plan.Route{Action: actions()[min(int(r.Action), 2)], Masquerade: plan.Masquerade(r.Masquerade)}
	for i := range r.N {
		if e, ok := s.slots[r.List][i]; ok {
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	return out
}

// whole tells whether a route's list has all its slots, each with another endpoint, and its
// members are just these.
func (s *state) whole(r plumbRoute) bool {
	slots, members := s.slots[r.List], s.members[r.List]
	if len(slots) != int(r.N) || len(members) != int(r.N) {
		return false
	}
	seen := make(map[place]bool, r.N)
	for i := range r.N {
		e, ok := slots[i]
		at := toPlace(e)
		if flags, is := members[at]; !ok || !is || flags != uint32(toFlags(e)) || seen[at] {
			return false
		}
		seen[at] = true
	}
	return true
}

func (s *state) listing() listing {
	l := listing{
		link:     plan.Link(bytes.TrimRight(s.config.LocalLink[:], "\x00")),
		networks: s.networks, classes: s.classes, fronts: map[plan.Key]*plan.Frontend{}, odd: s.odd(),
	}
	for k := range s.fronts {
		f := s.frontend(k)
		l.fronts[f.Key] = &f
	}
	return l
}
