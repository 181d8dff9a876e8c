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

func (t *Tally) add(each []plumbTally) {
	for _, c := range each {
		t.Connections += c.Connections
		t.Refused += c.Refused
		t.Dropped += c.Dropped
	}
}

func (t Tally) String() string {
	return fmt.Sprintf("%d connections, %d packets refused, %d dropped", t.Connections, t.Refused, t.Dropped)
}

// tallied calls f with every tally.
func tallied(m *plumbMaps, f func(plumbFrontendKey, Tally)) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("read tallies: %w", err)
	}
	const some = 256 // each as often as there are processors
	keys, vals := make([]plumbFrontendKey, some), make([]plumbTally, some*cpus)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.PlumbTallies.BatchLookup(&cursor, keys, vals, nil)
		for i := range n {
			var t Tally
			t.add(vals[i*cpus : (i+1)*cpus])
			f(keys[i], t)
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
func (m *plumbMaps) tally(k plumbFrontendKey) (t Tally, err error) {
	var each []plumbTally
	err = m.PlumbTallies.Lookup(k, &each)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return t, nil
	}
	t.add(each)
	return t, err
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
