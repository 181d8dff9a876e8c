//go:build linux

package others

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// What drops forwarded packets is named, of nftables and of iptables' two kinds, to who has NET_ADMIN
// alone; what accepts them, or drops others, is not.
func TestForwardDrops(t *testing.T) {
	need.Root(t)
	drops := func(t *testing.T, ns *netns.NS) (out []string) {
		t.Helper()
		err := ns.Do(func() (err error) { // on a thread that ends with it
			if err := keepNetAdmin(); err != nil {
				return err
			}
			out, err = ForwardDrops(Config{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return append([]string{}, out...)
	}
	t.Run("nftables", func(t *testing.T) {
		ns := netns.ForTest(t, "n")
		want(t, drops(t, ns))
		inside(t, ns, `
add table inet wall
add chain inet wall in { type filter hook input priority 0; policy drop; }
add chain inet wall through { type filter hook forward priority 0; policy accept; }
add chain inet wall aside
`, "nft", "-f", "-")
		want(t, drops(t, ns))
		inside(t, ns, `
add chain inet wall through { policy drop; }
add table ip6 six
add chain ip6 six x { type filter hook forward priority 10; policy drop; }
`, "nft", "-f", "-")
		want(t, drops(t, ns), "chain through of table inet wall", "chain x of table ip6 six")
	})
	for _, c := range [][2]string{
		{"iptables-nft", "chain FORWARD of table ip filter"}, {"ip6tables-nft", "chain FORWARD of table ip6 filter"},
		{"iptables-legacy", "chain FORWARD of table filter (iptables-legacy)"}, {"ip6tables-legacy", "chain FORWARD of table filter (ip6tables-legacy)"},
	} {
		t.Run(c[0], func(t *testing.T) {
			ns := netns.ForTest(t, "n")
			inside(t, ns, "", c[0], "-P", "INPUT", "DROP")
			inside(t, ns, "", c[0], "-A", "FORWARD", "-p", "udp", "-j", "DROP")
			want(t, drops(t, ns))
			inside(t, ns, "", c[0], "-P", "FORWARD", "DROP")
			want(t, drops(t, ns), c[1])
			inside(t, ns, "", c[0], "-P", "FORWARD", "ACCEPT")
			want(t, drops(t, ns))
		})
	}
}

// keepNetAdmin takes every other capability from the thread that it is called on.
func keepNetAdmin() error {
	only := [2]unix.CapUserData{{Effective: 1 << unix.CAP_NET_ADMIN, Permitted: 1 << unix.CAP_NET_ADMIN}}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &only[0])
}
