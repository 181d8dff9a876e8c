package userspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Path is the way of a packet to one frontend, as the kernel has it: the elements
// that it meets, in the order of the chains, and what they do. Where a connection
// goes that comes to the process, the process alone knows: the plan's endpoints.
func Path(p *plan.Plan, key plan.Key, netns int) (string, error) {
	f, ok := plan.Index(p)[key]
	if !ok {
		return "", fmt.Errorf("show path: no frontend %s", key)
	}
	present, err := read(netns)
	if err != nil {
		return "", fmt.Errorf("show path: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (userspace)\n", f.Kind, key)
	for _, chains := range [][2]string{{"classify, output", ""}, {"unclaimed-forward, unclaimed-output", "after all dnat"}} {
		wildcard := chains[1] != ""
		if wildcard != key.IsWildcard() {
			continue
		}
		fmt.Fprintf(&b, "table %s %s, chains %s\n", familyOf(key.IPv6).text, TableName, chains[0])
		for _, id := range inChainOrder() {
			for _, e := range slices.SortedFunc(maps.Keys(present.elements), Element.compare) {
				if e.set == id && e.v6 == key.IPv6 && e.isOf(key) {
					fmt.Fprintf(&b, "  %s: %s\n", e, id.does())
				}
			}
		}
	}
	if !key.IsWildcard() {
		fmt.Fprintf(&b, "routing rule %d, fwmark %#x/%#x: table %d, all addresses local\n", rulePriority, markToProxy, markMask, routeTable)
		fmt.Fprintf(&b, "table %s %s, chain deliver\n  tproxy to the process\n", familyOf(key.IPv6).text, TableName)
		writeRoutes(&b, *f)
	}
	return b.String(), nil
}

func writeRoutes(b *strings.Builder, f plan.Frontend) {
	if f.Inside != nil {
		fmt.Fprintf(b, "process, from the node and its pods\n  %s\n", f.Inside)
	}
	fmt.Fprintf(b, "process\n  %s\n", f.Outside)
}

// inChainOrder are the sets in the order that a packet meets them.
func inChainOrder() []setID {
	out := []setID{setRestricted, setSources}
	for _, v := range []view{viewInsideServices, viewServices, viewInsideNodePorts, viewNodePorts} {
		out = append(out, v.set(plan.Forward), v.set(plan.Reject), v.set(plan.Drop))
	}
	return append(out, setClusterIPs)
}

// does says what becomes of a packet that a set has.
func (id setID) does() string {
	switch id {
	case setRestricted:
		return "drop, unless the source is below"
	case setSources:
		return "let in"
	case setClusterIPs:
		return "refuse"
	}
	switch id % 3 {
	case viewServices.set(plan.Reject):
		return "refuse"
	case viewServices.set(plan.Drop):
		return "drop"
	}
	return "to the process"
}

// isOf tells whether an element is one of a frontend's.
func (e Element) isOf(k plan.Key) bool {
	switch {
	case k.IsWildcard():
		return e.set == setClusterIPs && e.key == string(k.Addr.AsSlice())
	case k.IsNodePort():
		return e.key == portKey(k)
	}
	return strings.HasPrefix(e.key, exactKey(k))
}
