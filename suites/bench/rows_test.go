//go:build linux

package bench

import "testing"

// What has taken machines down is run when it is asked for, and only then.
func TestBounds(t *testing.T) {
	bounds := map[string]int{"kube-proxy:nftables": 10_000, "kube-proxy:iptables": 2000}
	for _, r := range Rows() {
		if r.Bound != bounds[r.Name()] {
			t.Errorf("%s is bounded by %d Services, want %d", r.Name(), r.Bound, bounds[r.Name()])
		}
		for n, left := range map[int]bool{r.Bound: false, r.Bound + 1: r.Bound > 0} {
			if why := (Config{}).leftOut(r, n); (why != "") != left {
				t.Errorf("%s with %d Services is left out: %q", r.Name(), n, why)
			}
			if why := (Config{Beyond: true}).leftOut(r, n); why != "" {
				t.Errorf("%s with %d Services is left out though it was asked for: %s", r.Name(), n, why)
			}
		}
	}
}
