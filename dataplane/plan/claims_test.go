package plan

import (
	"slices"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Rivals are exactly the other Services that claim a frontend now, whoever came or went first.
func TestClaims(t *testing.T) {
	name := func(n string) objects.Name { return objects.Name{Name: n} }
	service := func(ports ...uint16) (s Service) {
		for _, p := range ports {
			s.Frontends = append(s.Frontends, Frontend{Key: key(p)})
		}
		return s
	}
	for _, c := range []struct {
		what string
		sets []string // Services that claim port 1, one after another; with a minus they let go
		want []string // who claims it in the end
	}{
		{"alone", []string{"a"}, []string{"a"}},
		{"the first goes", []string{"a", "b", "-a"}, []string{"b"}},
		{"the first of three goes", []string{"a", "b", "c", "-a"}, []string{"b", "c"}},
		{"the second of three goes", []string{"a", "b", "c", "-b"}, []string{"a", "c"}},
		{"two of four go", []string{"a", "b", "c", "d", "-b", "-c"}, []string{"a", "d"}},
		{"all go", []string{"a", "b", "-a", "-b"}, nil},
		{"set again", []string{"a", "b", "a", "b"}, []string{"a", "b"}},
		{"goes and comes back", []string{"a", "b", "-a", "a", "-b"}, []string{"a"}},
	} {
		var claims Claims
		had := map[string]Service{}
		for _, s := range c.sets {
			now := service(1)
			if s[0] == '-' {
				s, now = s[1:], service()
			}
			claims.Set(name(s), had[s], now)
			had[s] = now
		}
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			var want []objects.Name
			for _, w := range c.want {
				if w != n {
					want = append(want, name(w))
				}
			}
			got := claims.Rivals(name(n), key(1))
			slices.SortFunc(got, objects.Name.Compare)
			if !slices.Equal(got, want) {
				t.Errorf("%s: rivals of %s are %v, want %v", c.what, n, got, want)
			}
		}
	}
}
