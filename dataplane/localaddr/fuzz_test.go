package localaddr

import "testing"

// FuzzParse: whatever the kernel says of an address is one, none, or an error.
func FuzzParse(f *testing.F) {
	ifaddr := []byte{2, 24, 0, 0, 1, 0, 0, 0}
	f.Add(append(ifaddr, 8, 0, 1, 0, 192, 0, 2, 1, 8, 0, 2, 0, 192, 0, 2, 2))
	f.Add(append(ifaddr, 20, 0, 1, 0, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
	f.Add(append(ifaddr, 6, 0, 1, 0, 1, 2, 0, 0))
	f.Add(ifaddr[:5])
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parse(b); err != nil && a.IsValid() {
			t.Errorf("%s and %v", a, err)
		}
	})
}
