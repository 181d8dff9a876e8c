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

// A list that is the beginning of another is not that one.
func TestSettleParts(t *testing.T) {
	f := Frontend{Outside: Route{Endpoints: eps("abcd")}}
	f.Inside = &Route{Endpoints: f.Outside.Endpoints[:2]}
	was := Frontend{Outside: Route{Endpoints: eps("dcba")}}
	was.Inside = &Route{Endpoints: was.Outside.Endpoints[:2]}
	for _, old := range []Frontend{{Outside: was.Outside}, was} {
		got := Settle(old, f)
		if len(got.Inside.Endpoints) != 2 || len(got.Outside.Endpoints) != 4 {
			t.Errorf("outside %s, inside %s", letters(got.Outside.Endpoints), letters(got.Inside.Endpoints))
		}
	}
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
