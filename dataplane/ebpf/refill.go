package ebpf

import (
	"slices"

	"github.com/cilium/ebpf"
)

// refill puts what the table says back into maps that lack entries, before everything is read back and
// compared, which takes seconds with tens of thousands of Services: packets do not wait for that. What is
// there stays, and what fails is the comparison's to mend.
func (t *Target) refill() {
	t.mu.Lock()
	short := t.short
	t.short = nil
	t.mu.Unlock()
	if !t.synced || len(short) == 0 {
		return
	}
	m, lacks := t.table.maps, func(name string) bool { return slices.Contains(short, name) }
	for _, f := range t.table.fronts {
		if lacks(plumbMapPlumbSources) {
			for _, p := range f.ranges.prefixes {
				_ = m.PlumbSources.Update(f.ranges.key(p), uint32(1), ebpf.UpdateAny)
			}
		}
		for _, l := range []list{f.drains, f.out, f.in} {
			for _, e := range l.eps {
				if lacks(plumbMapPlumbMembers) {
					_ = m.PlumbMembers.Update(memberKey(l.number, toPlace(e)), uint32(toFlags(e)), ebpf.UpdateNoExist)
				}
			}
		}
		for _, l := range []list{f.out, f.in} {
			for i, e := range l.eps {
				if lacks(plumbMapPlumbSlots) {
					_ = m.PlumbSlots.Update(plumbSlotKey{List: l.number, Index: uint32(i)}, slotValue(e), ebpf.UpdateNoExist)
				}
			}
		}
		if lacks(plumbMapPlumbFronts) {
			_ = m.PlumbFronts.Update(toKey(f.plan.Key), f.value, ebpf.UpdateNoExist)
		}
	}
	if lacks(plumbMapPlumbAddrs) {
		for a, class := range t.table.classes {
			_ = m.PlumbAddrs.Update(toAddr(a), class, ebpf.UpdateNoExist)
		}
	}
	if lacks(plumbMapPlumbNetworks) {
		for p, flags := range t.net {
			_ = m.PlumbNetworks.Update(plumbNetworkKey{Bits: bits(p), Addr: toAddr(p.Addr())}, flags, ebpf.UpdateAny)
		}
	}
}
