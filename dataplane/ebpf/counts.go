package ebpf

import (
	"errors"
	"fmt"
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

// Counts are what the programs have counted since the maps were made, by name: connections that
// began (new; taken-port: those of them with another source port of the client's), TCP packets
// without an entry that passed on (unknown-tcp), and packets that went no further, by one of
// Reasons.
func Counts(pins string) (map[string]uint64, error) {
	m, err := open(pins)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	if m == nil {
		return map[string]uint64{}, nil
	}
	out, err := m.counts()
	return out, errors.Join(err, m.Close())
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
