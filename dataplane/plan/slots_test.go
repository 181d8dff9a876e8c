package plan

import (
	"net/netip"
	"slices"
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

// Places that differ in nothing but their port, or the first half of their address, are places
// of their own.
func TestSettlePlaces(t *testing.T) {
	var ports, nets []Endpoint
	for i := range byte(3) {
		ports = append(ports, Endpoint{Addr: netip.AddrFrom4([4]byte{10}), Port: uint16(i)})
		nets = append(nets, Endpoint{Addr: netip.AddrFrom16([16]byte{0xfd, i}), Port: 80})
	}
	for what, want := range map[string][]Endpoint{"ports": ports, "networks": nets} {
		old := []Endpoint{want[2], want[0], want[1]}
		if got := settle(old, want); !slices.Equal(got, old) {
			t.Errorf("%s: %v, want %v", what, got, old)
		}
	}
}

// The inside keeps its slots as the outside does.
func TestSettleInside(t *testing.T) {
	old := Frontend{Outside: Route{Endpoints: eps("dc")}, Inside: &Route{Endpoints: eps("cba")}}
	got := Settle(old, Frontend{Outside: Route{Endpoints: eps("cd")}, Inside: &Route{Endpoints: eps("abcd")}})
	if outside, inside := letters(got.Outside.Endpoints), letters(got.Inside.Endpoints); outside != "dc" || inside != "cbad" {
		t.Errorf("outside %s, inside %s", outside, inside)
	}
}

// Frontends that share a list share it settled, but one that had another list before, or comes to
// have another, has its own.
func TestSettledShares(t *testing.T) {
	ab, ba, abc := eps("ab"), eps("ba"), eps("abc")
	for _, c := range []struct {
		what          string
		old1, new1    []Endpoint
		old2, new2    []Endpoint
		first, second string
	}{
		{"the same", ba, ab, ba, ab, "ba", "ba"},
		{"another before", ba, abc, ab, abc, "bac", "abc"},
		{"another now", ba, ab, ba, abc, "ba", "bac"},
	} {
		s := settled{}
		first := s.endpoints(c.old1, c.new1)
		second := s.endpoints(c.old2, c.new2)
		if letters(first) != c.first || letters(second) != c.second {
			t.Errorf("%s: %s and %s, want %s and %s", c.what, letters(first), letters(second), c.first, c.second)
		}
	}
}
