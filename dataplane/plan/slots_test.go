package plan

import (
	"net/netip"
	"strings"
	"testing"
)

func eps(letters string) []Endpoint {
	var out []Endpoint
	for _, l := range letters {
		out = append(out, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(l)}), Port: 80})
	}
	return out
}

func letters(eps []Endpoint) string {
	var b strings.Builder
	for _, e := range eps {
		b.WriteByte(e.Addr.As4()[3])
	}
	return b.String()
}

func TestSettle(t *testing.T) {
	for _, c := range []struct{ old, want, settled string }{
		{"", "abc", "abc"},
		{"cba", "abc", "cba"},   // nothing changes
		{"abcd", "bcd", "dbc"},  // the last moves into the hole
		{"abcd", "abd", "abd"},  // the hole is before the last
		{"abcd", "abc", "abc"},  // the last goes
		{"abc", "abxc", "abcx"}, // a new one goes to the end
		{"abc", "axc", "axc"},   // replaced in place
		{"abc", "x", "x"},
		{"abc", "", ""},
	} {
		if got := letters(settle(eps(c.old), eps(c.want))); got != c.settled {
			t.Errorf("settle(%q, %q) = %q, want %q", c.old, c.want, got, c.settled)
		}
	}
}
