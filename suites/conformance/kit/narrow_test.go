package kit

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A route of somebody else's to the same address stays, though ours had no place beside it.
func TestNarrowBesideAnothers(t *testing.T) {
	need.Program(t, "ip")
	for family, c := range map[string][2]string{"-4": {"198.51.100.9/32", "192.0.2.2"}, "-6": {"2001:db8:9::9/128", "2001:db8::2"}} {
		to, via := c[0], c[1]
		s, _, a := capturing(t)
		n := s.env.nodes[0]
		s.env.stage = &outfitted{cluster: rooms{nodes: s.env.nodes}}
		if _, err := s.env.stage.Cluster().Exec(t.Context(), n.Name, "ip", "route", "add", to, "via", via); err != nil {
			t.Fatal(err)
		}
		out, ok := s.protected(func(s *Spec) { s.Narrow(n, netip.MustParsePrefix(to).Addr(), netip.MustParseAddr(via)) })
		if ok || out.result != ResultInconclusive {
			t.Errorf("%s: %+v", to, out)
		}
		if err := s.end(); err == nil {
			t.Errorf("%s: a route was taken away that was not there", to)
		}
		var routes []byte
		if err := netns.At(a.Path()).Do(func() (err error) {
			routes, err = exec.Command("ip", family, "route", "show", to).Output()
			return err
		}); err != nil || !strings.Contains(string(routes), "via "+via) {
			t.Errorf("%s: %q, %v", to, routes, err)
		}
	}
}
