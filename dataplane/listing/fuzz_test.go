package listing

import "testing"

// FuzzKey: what is read as a frontend is written as what reads the same.
func FuzzKey(f *testing.F) {
	for _, text := range []string{"10.96.0.1:443/TCP", "tcp://10.96.0.1:443", "node:30080/UDP", "node6:1/sctp", "[fd00::1]:80", "[::ffff:10.0.0.1]:80", "node:0", "10.0.0.1:80/", "://", "fe80::1%eth0:80"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			return
		}
		again, err := ParseKey(KeyText(k))
		if err != nil || again != k {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, k, KeyText(k), again, err)
		}
	})
}
