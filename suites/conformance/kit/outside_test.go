package kit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Nobody gets an address that a behaviour has, and what one had comes again as late as can be.
func TestFreeAddr(t *testing.T) {
	e := &Env{numbers: map[string]int{}, used: map[string]bool{}}
	spec := func(f corev1.IPFamily) *Spec { return &Spec{Family: f, env: e} }
	long, short, other := spec(corev1.IPv4Protocol), spec(corev1.IPv4Protocol), spec(corev1.IPv6Protocol)
	kept := long.FreeAddr()
	seen := map[string]bool{}
	for range 249 {
		a := short.FreeAddr()
		if a == kept || seen[a.String()] || !documentation.Contain(a) {
			t.Fatalf("%s is given twice, or is not for documentation", a)
		}
		seen[a.String()] = true
	}
	if a := other.FreeAddr(); !a.Is6() || !documentation.Contain(a) {
		t.Errorf("of IPv6: %s", a)
	}
	if _, ok := spec(corev1.IPv4Protocol).protected(func(s *Spec) { s.FreeAddr() }); ok {
		t.Error("an address is given though all are in use")
	}
	if err := short.end(); err != nil {
		t.Fatal(err)
	}
	if a := long.FreeAddr(); a == kept {
		t.Errorf("%s is given again", a)
	}
}
