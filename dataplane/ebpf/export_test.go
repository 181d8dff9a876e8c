package ebpf

import "net/netip"

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
