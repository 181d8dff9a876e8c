package ebpf

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
