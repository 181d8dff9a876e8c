package ebpf

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// listing is what a plan and the maps have in common: Render makes one of a plan, Dump of the
// maps. Numbers of lists and places in them are in neither.
type listing struct {
	link     plan.Link
	networks map[netip.Prefix]uint32
	classes  map[netip.Addr]uint32
	fronts   map[plan.Key]*plan.Frontend // those that are served
	odd      []string                    // what no plan leads to
}

// String is sorted, a fact on a line.
func (l listing) String() string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)+"\n") }
	if l.link != "" {
		add("own pods by %s", l.link)
	}
	for p, flags := range l.networks {
		for i, name := range []string{"own pods", "service addresses"} {
			if flags&(1<<i) != 0 {
				add("network %s: %s", p, name)
			}
		}
	}
	for a, class := range l.classes {
		for i, name := range classNames() {
			if class&(1<<i) != 0 {
				add("address %s: %s", a, name)
			}
		}
	}
	for k, f := range l.fronts {
		for _, line := range lines(*f) {
			add("%s %s", k, line)
		}
	}
	for _, line := range l.odd {
		add("%s", line)
	}
	slices.Sort(out)
	return strings.Join(out, "")
}

// classNames are those of the bits of an address's class.
func classNames() []string { return []string{"rest refused", "node ports", "frontends"} }

func lines(f plan.Frontend) []string {
	var out []string
	route := func(name string, r plan.Route) {
		if r.Action == plan.Forward {
			out = append(out, name+" "+plan.Route{Action: r.Action, Masquerade: r.Masquerade}.String())
		} else {
			out = append(out, name+" "+string(r.Action))
		}
		for _, e := range r.Endpoints {
			out = append(out, name+" to "+e.String())
		}
	}
	route("outside", f.Outside)
	if f.Inside != nil {
		route("inside", *f.Inside)
	}
	if f.Affinity > 0 {
		out = append(out, fmt.Sprintf("affinity %d s of %s", int(f.Affinity.Seconds()), f.Group))
	}
	if f.Restricted {
		out = append(out, "restricted")
		for _, p := range distinct(f.Sources) {
			out = append(out, "only from "+p.String())
		}
	}
	for _, e := range f.Draining {
		out = append(out, "draining "+e.String())
	}
	return out
}

// distinct are prefixes as the kernel keeps them.
func distinct(in []netip.Prefix) []netip.Prefix {
	set := map[netip.Prefix]bool{}
	for _, p := range in {
		set[p.Masked()] = true
	}
	return slices.SortedFunc(maps.Keys(set), netip.Prefix.Compare)
}
