package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// countNames are those of the counters, in the order of bpf/maps.h; from firstReason on they say
// why a packet goes no further.
func countNames() []string {
	return []string{
		"new", "taken-port", "unknown-tcp",
		"refused", "refused-rest", "not-answered", "refusal-failed", "refusal-limited", "source-range", "policy", "no-service", "untranslated",
		"no-masquerade", "no-snat-port", "no-entry", "no-slot", "fragment", "malformed", "not-written",
	}
}

const firstReason = plumbCountCOUNT_REFUSED

// Reasons are the names for which a packet goes no further; what each means is in bpf/maps.h. Those
// of a refusal that was sent begin with "refused".
func Reasons() []string { return countNames()[firstReason:] }

// Counted is what the programs have counted. Counts are since the maps were made, by name:
// connections that began (new; taken-port: those of them with another source port of the client's),
// TCP packets without an entry that passed on (unknown-tcp), and packets that went no further, by one
// of Reasons. Tallies are those of the frontends that a packet came to.
type Counted struct {
	Counts  map[string]uint64
	Tallies map[plan.Key]Tally
}

// Counted reads it from the maps that are open; before the first Apply there is nothing. It may be
// called at any time.
func (t *Target) Counted() (Counted, error) {
	counts, tallies, err := t.counters()
	if err != nil || counts == nil {
		return Counted{}, err
	}
	defer closeAll(counts, tallies)
	m := &plumbMaps{PlumbCounts: counts, PlumbTallies: tallies}
	return m.counted()
}

// Count is one of Counted's counts, read alone: that costs the same however many frontends there are. Before
// the first Apply there is none.
func (t *Target) Count(name string) (n uint64, is bool, err error) {
	counts, tallies, err := t.counters()
	if err != nil || counts == nil {
		return 0, false, err
	}
	defer closeAll(counts, tallies)
	all, err := (&plumbMaps{PlumbCounts: counts}).counts()
	return all[name], err == nil, err
}

// counters are second descriptors of the maps, which Close does not close.
func (t *Target) counters() (counts, tallies *ebpf.Map, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return nil, nil, nil
	}
	out, err := cloned(t.objs.PlumbCounts, t.objs.PlumbTallies)
	if err != nil {
		return nil, nil, fmt.Errorf("read counters: %w", err)
	}
	return out[0], out[1], nil
}

func (m *plumbMaps) counted() (Counted, error) {
	out := Counted{Tallies: map[plan.Key]Tally{}}
	var err error
	out.Counts, err = m.counts()
	return out, errors.Join(err, tallied(m, func(k plumbFrontendKey, t Tally) { out.Tallies[fromKey(k)] = t }))
}

func (m *plumbMaps) counts() (map[string]uint64, error) {
	out := map[string]uint64{}
	var err error
	for i, name := range countNames() {
		var each []uint64
		if e := m.PlumbCounts.Lookup(uint32(i), &each); e != nil {
			err = errors.Join(err, fmt.Errorf("read counter %s: %w", name, e))
		}
		for _, n := range each {
			out[name] += n
		}
	}
	return out, err
}
