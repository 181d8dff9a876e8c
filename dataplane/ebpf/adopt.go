package ebpf

import (
	"errors"
	"maps"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// adopt is the table as the maps have it. What is not whole has a frontend without a list, which
// is written anew; orphans are what then no frontend of the table has, though one's entry may still
// name it.
func adopt(m *plumbMaps, w *writer, s *state) (t *table, orphans *state) {
	t = &table{
		maps: m, w: w, fronts: map[plan.Key]*front{}, classes: s.classes, room: m.PlumbAddrs.MaxEntries() - nodeRoom,
		exact: map[netip.Addr]int{}, rest: map[netip.Addr]bool{}, node: map[netip.Addr]bool{},
	}
	orphans = &state{slots: maps.Clone(s.slots), members: maps.Clone(s.members), sources: maps.Clone(s.sources)}
	for a, class := range s.classes {
		if class&addressClusterIP != 0 {
			t.rest[a] = true
		}
		if class&addressNode != 0 {
			t.node[a] = true
		}
	}
	for _, numbers := range []func(func(uint32) bool){maps.Keys(s.slots), maps.Keys(s.members), maps.Keys(s.sources)} {
		for n := range numbers {
			t.last = max(t.last, n)
		}
	}
	taken := map[uint32]bool{} // numbers of source ranges, of which one may be empty
	for k, v := range s.fronts {
		f := s.frontend(k)
		at := &front{plan: f, value: v}
		at.out = claimed(s, orphans, v.Routes[0])
		at.in = claimed(s, orphans, v.Routes[1])
		at.plan.Outside.Endpoints = at.out.eps
		if at.plan.Inside != nil {
			at.plan.Inside.Endpoints = at.in.eps
		}
		if _, mine := orphans.members[v.Draining]; mine {
			at.drains = list{v.Draining, f.Draining}
			delete(orphans.members, v.Draining)
		}
		if !taken[v.Sources] {
			at.ranges = ranges{v.Sources, f.Sources}
			delete(orphans.sources, v.Sources)
			taken[v.Sources] = true
		}
		t.last = max(t.last, v.Routes[0].List, v.Routes[1].List, v.Draining, v.Sources)
		t.fronts[f.Key] = at
		if !f.Key.IsNodePort() {
			t.exact[f.Key.Addr]++
		}
	}
	return t, orphans
}

// claimed is a route's list if it is whole and nobody else's.
func claimed(s, orphans *state, r plumbRoute) list {
	if _, free := orphans.slots[r.List]; !free || !s.whole(r) {
		return list{}
	}
	delete(orphans.slots, r.List)
	delete(orphans.members, r.List)
	return list{r.List, s.route(r).Endpoints}
}

// named are the numbers in the entries of frontends.
func (t *table) named() map[uint32]bool {
	out := map[uint32]bool{}
	for _, f := range t.fronts {
		for _, r := range f.value.Routes {
			out[r.List] = true
		}
		out[f.value.Draining], out[f.value.Sources] = true, true
	}
	return out
}

// remove deletes what is in a state, but for what is named: a frontend that could not be written
// anew is served by that. now says that nothing has led there for long; else it goes in a while.
func (s *state) remove(w *writer, m *plumbMaps, named map[uint32]bool, now bool) {
	slot, member, source := later[plumbSlotKey], later[plumbMemberKey], later[plumbSourceKey]
	if now {
		slot, member, source = drop[plumbSlotKey], drop[plumbMemberKey], drop[plumbSourceKey]
	}
	maps.DeleteFunc(s.slots, func(number uint32, slots map[uint32]plan.Endpoint) bool {
		for i := range slots {
			if !named[number] {
				slot(w, m.PlumbSlots, plumbSlotKey{List: number, Index: i})
			}
		}
		return !named[number]
	})
	maps.DeleteFunc(s.members, func(number uint32, members map[place]uint32) bool {
		for at := range members {
			if !named[number] {
				member(w, m.PlumbMembers, memberKey(number, at))
			}
		}
		return !named[number]
	})
	maps.DeleteFunc(s.sources, func(number uint32, prefixes map[netip.Prefix]bool) bool {
		for p := range prefixes {
			if !named[number] {
				source(w, m.PlumbSources, ranges{number: number}.key(p))
			}
		}
		return !named[number]
	})
}

// forgetAll empties a map that programs fill.
func forgetAll[K comparable, V any](m *ebpf.Map) error {
	var keys []K
	if err := entries(m, func(k K, _ V) { keys = append(keys, k) }); err != nil {
		return err
	}
	for _, k := range keys {
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}
