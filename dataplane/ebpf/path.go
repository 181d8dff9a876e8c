package ebpf

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Path is the way of a packet to a frontend of the plan through the maps, as text: what is shown
// is what is there, and what is missing is shown as missing.
func Path(p *plan.Plan, key plan.Key, pins string) (string, error) {
	if _, ok := plan.Index(p)[key]; !ok {
		return "", fmt.Errorf("show path of %s: no such frontend", key)
	}
	m, err := open(pins)
	if err != nil {
		return "", fmt.Errorf("show path of %s: %w", key, err)
	}
	if m == nil {
		return "", fmt.Errorf("show path of %s: no maps are pinned in %s", key, pins)
	}
	defer m.Close()
	s, err := read(m)
	if err != nil {
		return "", fmt.Errorf("show path of %s: %w", key, err)
	}
	t := &tracer{s: s}
	t.line(0, "%s", key)
	takers, err := s.takers(key, pins)
	if err != nil {
		return "", fmt.Errorf("show path of %s: %w", key, err)
	}
	for _, line := range takers {
		t.line(0, "%s", line)
	}
	t.addresses(key, p.Node.Addrs)
	if !key.IsWildcard() {
		t.frontend(key)
		counted, err := m.tally(toKey(key))
		if err != nil {
			return "", fmt.Errorf("show path of %s: read its tally: %w", key, err)
		}
		t.line(2, "so far: %s", counted)
	}
	return t.out.String(), nil
}

type tracer struct {
	s   *state
	out strings.Builder
}

func (t *tracer) line(depth int, format string, args ...any) {
	fmt.Fprintf(&t.out, strings.Repeat("  ", depth)+format+"\n", args...)
}

// addresses shows the class of the frontend's, or of the node's of its family.
func (t *tracer) addresses(k plan.Key, node []netip.Addr) {
	at := []netip.Addr{k.Addr}
	if k.IsNodePort() {
		at = slices.DeleteFunc(slices.Clone(node), func(a netip.Addr) bool { return a.Is6() != k.IPv6 })
	}
	for _, a := range at {
		class, ok := t.s.classes[a]
		if !ok {
			t.line(1, "map plumb_addrs: nothing for %s", a)
			continue
		}
		t.line(1, "map plumb_addrs: %s", a)
		for i, name := range classNames() {
			if class&(1<<i) != 0 {
				t.line(2, "%s", name)
			}
		}
	}
}

func (t *tracer) frontend(key plan.Key) {
	k := toKey(key)
	v, ok := t.s.fronts[k]
	if !ok {
		t.line(1, "map plumb_fronts: nothing for %s", key)
		return
	}
	f := t.s.frontend(k)
	t.line(1, "map plumb_fronts: %s", key)
	if f.Restricted {
		t.line(2, "map plumb_sources: number %d", v.Sources)
		for _, p := range f.Sources {
			t.line(3, "let in %s", p)
		}
		t.line(3, "drop others")
	}
	if f.Affinity > 0 {
		t.line(2, "map plumb_affinity: source and %s, within %s, if the list below has the endpoint", f.Group, f.Affinity)
	}
	if f.Inside != nil {
		t.line(2, "from the node's own pods")
		t.route(3, v.Routes[1], *f.Inside)
		t.line(2, "others")
		t.route(3, v.Routes[0], f.Outside)
	} else {
		t.route(2, v.Routes[0], f.Outside)
	}
	for at, flags := range t.drains(v.Draining) {
		t.line(2, "draining, of connections there are: %s", fromPlace(at, flags))
	}
}

// drains are the members of a list in order.
func (t *tracer) drains(number uint32) func(func(place, uint16) bool) {
	return func(yield func(place, uint16) bool) {
		members := t.s.members[number]
		order := func(a, b place) int { return fromPlace(a, 0).Compare(fromPlace(b, 0)) }
		for _, at := range slices.SortedFunc(maps.Keys(members), order) {
			if !yield(at, uint16(members[at])) {
				return
			}
		}
	}
}

func (t *tracer) route(depth int, v plumbRoute, r plan.Route) {
	t.line(depth, "%s", plan.Route{Action: r.Action, Masquerade: r.Masquerade})
	if r.Action != plan.Forward {
		return
	}
	t.line(depth, "map plumb_slots: list %d, random of %d", v.List, v.N)
	for i := range v.N {
		if e, ok := t.s.slots[v.List][i]; ok {
			t.line(depth+1, "%d: %s", i, e)
		} else {
			t.line(depth+1, "%d: nothing", i)
		}
	}
}
