package ebpf

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
)

// ForgetAnswers deletes the entries that what endpoints send meets, as a map without room may, and
// tells how many there were.
func ForgetAnswers(pins string) (n int) {
	m, err := open(pins)
	if err != nil || m == nil {
		return -1
	}
	defer m.Close()
	var keys []plumbFlowKey
	err = entries(m.PlumbFlows, func(k plumbFlowKey, f plumbFlow) {
		if f.Answer == 1 {
			keys = append(keys, k)
		}
	})
	if err != nil {
		return -1
	}
	for _, k := range keys {
		if m.PlumbFlows.Delete(k) == nil {
			n++
		}
	}
	return n
}

// Age lets time go by for connections and fragments.
func Age(pins string, d time.Duration) error {
	m, err := open(pins)
	if err != nil || m == nil {
		return fmt.Errorf("no maps: %w", err)
	}
	defer m.Close()
	return errors.Join(
		older[plumbFlowKey](m.PlumbFlows, func(f *plumbFlow) { f.Seen -= uint64(d) }),
		older[plumbFragmentKey](m.PlumbFrags, func(f *plumbPorts) { f.Seen -= uint64(d) }))
}

func older[K comparable, V any](m *ebpf.Map, change func(*V)) error {
	all := map[K]V{}
	if err := entries(m, func(k K, v V) { all[k] = v }); err != nil {
		return err
	}
	for k, v := range all {
		change(&v)
		if err := m.Update(k, v, ebpf.UpdateExist); err != nil {
			return err
		}
	}
	return nil
}

// OwnPods tells by how many devices own pods come.
func OwnPods(pins string) (n int, err error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return 0, fmt.Errorf("no maps: %w", err)
	}
	defer m.Close()
	err = entries(m.PlumbDevices, func(_ uint32, d plumbDevice) { n += int(d.Flags & deviceOwnPods) })
	return n, err
}

// Look is what Watch does when something is said of devices.
func (t *Target) Look(indexes ...int) (damaged bool, err error) { return t.mend(indexes) }

// MasqueradeOf are the addresses that a device gives to masqueraded connections.
func MasqueradeOf(pins string, index int) ([]netip.Addr, error) {
	m, err := open(pins)
	if err != nil || m == nil {
		return nil, err
	}
	defer m.Close()
	var d plumbDevice
	err = m.PlumbDevices.Lookup(uint32(index), &d)
	return []netip.Addr{fromAddr(d.Masquerade[0]), fromAddr(d.Masquerade[1])}, err
}

// HaveTCX tells whether the kernel has tcx.
func HaveTCX() (bool, error) { return haveTCX() }
