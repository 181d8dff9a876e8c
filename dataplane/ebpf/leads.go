package ebpf

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Pinned are a node's maps for who watches single entries of them while its agent works.
type Pinned struct{ maps *plumbMaps }

// OpenPinned opens the maps that an agent has pinned below Root for a network namespace.
func OpenPinned(netns int) (*Pinned, error) {
	at, err := mounted(netns)
	if err != nil {
		return nil, err
	}
	m, err := open(at)
	if err == nil && m == nil {
		err = fmt.Errorf("no maps are pinned in %s", at)
	}
	if err != nil {
		return nil, fmt.Errorf("open the pinned maps: %w", err)
	}
	return &Pinned{m}, nil
}

// Leads tells whether a frontend leads others than the node's own pods to an endpoint. Of a list that
// is changed in place, one that came is a member before its slot has it, and one that went no longer
// than it has one: when the new one leads and the old one does not, all of the change is there.
func (p *Pinned) Leads(key plan.Key, to netip.AddrPort) (bool, error) {
	var f plumbFrontend
	err := p.maps.PlumbFronts.Lookup(toKey(key), &f)
	if err == nil {
		var flags uint32
		err = p.maps.PlumbMembers.Lookup(memberKey(f.Routes[0].List, place{toAddr(to.Addr()), swapped(to.Port())}), &flags)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s behind %s: %w", to, key, err)
	}
	return true, nil
}

// Close closes the maps; they stay pinned.
func (p *Pinned) Close() error { return p.maps.Close() }
