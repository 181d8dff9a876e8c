package ebpf

import (
	"errors"
	"fmt"
)

// Forget drops what the maps pinned in a folder remember of connections; clients with affinity
// they remember still.
func Forget(pins string) error {
	m, err := open(pins)
	if err != nil || m == nil {
		return err
	}
	err = errors.Join(forgetAll[plumbFlowKey, plumbFlow](m.PlumbFlows), forgetAll[plumbFragmentKey, plumbPorts](m.PlumbFrags), m.Close())
	if err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	return nil
}
