package ebpf

import "fmt"

// Dump is all that the maps pinned in a folder hold as sorted text, in the form of Render; empty if
// there are none. What no plan leads to has lines of its own, for a moment also what a change has
// left over. Missing has what is not in the maps.
func Dump(pins string) (string, error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return "", err
	}
	defer m.Close()
	s, err := read(m)
	if err != nil {
		return "", fmt.Errorf("dump: %w", err)
	}
	return s.listing().String(), nil
}
