package ebpf

import (
	"errors"
	"fmt"
)

// countNames are those of the counters, in the order of bpf/maps.h.
func countNames() []string {
	return []string{
		"new", "refused", "dropped", "unknown-tcp", "untranslated", "no-snat-port", "no-entry", "fragment", "taken-port", "malformed",
	}
}

// Counts are what the programs have counted since the maps were made, by name: connections that
// began (new; taken-port: with another source port of the client's), packets that were refused or
// dropped as the plan says, TCP packets without an entry that passed on (unknown-tcp), and what
// was stopped because it could not be translated.
func Counts(pins string) (map[string]uint64, error) {
	m, err := open(pins)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	out := map[string]uint64{}
	if m == nil {
		return out, nil
	}
	for i, name := range countNames() {
		var each []uint64
		if e := m.PlumbCounts.Lookup(uint32(i), &each); e != nil {
			err = errors.Join(err, fmt.Errorf("read counter %s: %w", name, e))
		}
		for _, n := range each {
			out[name] += n
		}
	}
	return out, errors.Join(err, m.Close())
}
