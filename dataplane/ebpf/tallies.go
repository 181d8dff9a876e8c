package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Tally is what was counted of a frontend since it is there: connections that began by it, and
// packets to it that were refused or dropped for whatever reason. The packets of connections are
// not counted: that would cost each of them a lookup.
type Tally struct{ Connections, Refused, Dropped uint64 }

func toTally(t plumbTally) Tally { return Tally{t.Connections, t.Refused, t.Dropped} }

func (t Tally) String() string {
	return fmt.Sprintf("%d connections, %d packets refused, %d dropped", t.Connections, t.Refused, t.Dropped)
}

// tallied calls f with every tally.
func tallied(m *plumbMaps, f func(plumbFrontendKey, Tally)) error {
	const some = 256
	keys, vals := make([]plumbFrontendKey, some), make([]plumbTally, some)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.PlumbTallies.BatchLookup(&cursor, keys, vals, nil)
		for i := range n {
			f(keys[i], toTally(vals[i]))
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("read tallies: %w", err)
		}
	}
}

// tally is zero for a frontend that no packet came to.
func (m *plumbMaps) tally(k plumbFrontendKey) (Tally, error) {
	var t plumbTally
	err := m.PlumbTallies.Lookup(k, &t)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return Tally{}, nil
	}
	return toTally(t), err
}

// forgetTallies deletes those of frontends that are not there: a packet on its way may have made
// one anew.
func (t *table) forgetTallies() error {
	var gone []plumbFrontendKey
	err := tallied(t.maps, func(k plumbFrontendKey, _ Tally) {
		if t.fronts[fromKey(k)] == nil {
			gone = append(gone, k)
		}
	})
	for _, k := range gone {
		drop(t.w, t.maps.PlumbTallies, k)
	}
	return errors.Join(err, t.w.take())
}
