package iptables_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// withoutNat puts a program before ip6tables-nft-restore that does not know the table nat, as on a
// kernel without it, until the function that it returns is called.
func withoutNat(t *testing.T) (cure func()) {
	t.Helper()
	const name = "ip6tables-nft-restore"
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return before(t, name, fmt.Sprintf(`#!/bin/sh
input=$(cat)
printf '%%s\n' "$input" | sed '/^\*nat/,$d' | %s "$@" || exit
case "$input" in *'*nat'*)
	echo "%s v1.8.9 (nf_tables): " >&2
	echo "line 4: CHAIN_ADD failed (No such file or directory): chain PREROUTING" >&2
	exit 4
esac
`, program, name))
}

// before puts a script before a program until the function that it returns is called.
func before(t *testing.T, name, script string) (cure func()) {
	t.Helper()
	dir, path := t.TempDir(), os.Getenv("PATH")
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+path)
	return func() { t.Setenv("PATH", path) }
}

// Where the kernel has no nat table for IPv6, IPv4 is served, IPv6 is refused and leaves nothing,
// and one warning says so. A complete Apply finds out that it is there by now.
func TestWithoutNatForIPv6(t *testing.T) {
	needFlavour(t, iptables.NFT)
	ns := netns.ForTest(t, "lack")
	cure := withoutNat(t)
	var said bytes.Buffer
	target := iptables.New(iptables.Config{Logger: slog.New(slog.NewTextHandler(&said, nil)), NetNS: ns.FD(), Flavour: iptables.NFT})
	six := plan.Key{IPv6: true, Addr: netip.MustParseAddr("fd00::1"), Protocol: objects.TCP, Port: 80}
	none := plan.Key{IPv6: true, Addr: netip.MustParseAddr("fd00::2"), Protocol: objects.TCP, Port: 80}
	four := many(3, 2)
	both := with(four, 6, plan.Service{HealthCheck: &plan.HealthCheck{Port: 31999}, Frontends: []plan.Frontend{
		{Key: six, Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: netip.MustParseAddr("fd00::a"), Port: 80}}}},
		{Key: none, Outside: plan.Route{Action: plan.Reject}},
	}})
	refuses := func(err error) {
		t.Helper()
		refused := new(plan.Refused)
		if !errors.As(err, &refused) {
			t.Fatalf("got %v, want IPv6 refused", err)
		}
		keys := slices.SortedFunc(maps.Keys(refused.Frontends), plan.Key.Compare)
		if diff := cmp.Diff([]plan.Key{six, none}, keys, cmp.Comparer(func(a, b plan.Key) bool { return a == b })); diff != "" {
			t.Errorf("refused (-want +got):\n%s", diff)
		}
	}
	serves := func(p *plan.Plan) {
		t.Helper()
		if diff := cmp.Diff(ofFamily(iptables.Render(p), "ip"), ofFamily(dump(t, ns, iptables.NFT), "ip")); diff != "" {
			t.Errorf("IPv4 (-want +got):\n%s", diff)
		}
		if left := run(t, ns, "ip6tables-nft-save"); strings.Contains(left, "PLUMB-") {
			t.Errorf("of IPv6 is left:\n%s", left)
		}
	}
	refuses(target.Apply(t.Context(), nil, both))
	serves(both)
	if !target.WithoutIPv6() {
		t.Error("the Target says nothing of it")
	}
	other := with(both, 0, service(0, 3))
	apply(t, target, part(both, 0, both.Services[name(0)]), part(other, 0, other.Services[name(0)]))
	serves(other)
	refuses(target.Apply(t.Context(), part(other, 6, plan.Service{}), part(other, 6, other.Services[name(6)])))
	refuses(target.Apply(t.Context(), nil, other))
	serves(other)
	if n := strings.Count(said.String(), "this kernel has no iptables for IPv6"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, said.String())
	}
	cure()
	apply(t, target, nil, other)
	holds(t, ns, iptables.NFT, other)
	if target.WithoutIPv6() {
		t.Error("the Target says that it is still missing")
	}
}

// ofFamily are the lines of a dump, or of what is rendered, that are about one family.
func ofFamily(text, family string) (out []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, family+" ") {
			out = append(out, line)
		}
	}
	return out
}

// A family whose programs fail, whatever the reason, does not keep the other from what is new; it has
// it when they work again.
func TestFamiliesApart(t *testing.T) {
	needFlavour(t, iptables.NFT)
	for family, other := range map[string]string{"ip": "ip6", "ip6": "ip"} {
		ns := netns.ForTest(t, "apart")
		target := iptables.New(iptables.Config{Logger: slog.New(slog.DiscardHandler), NetNS: ns.FD(), Flavour: iptables.NFT})
		has := func(p *plan.Plan, families ...string) {
			t.Helper()
			for _, f := range families {
				if diff := cmp.Diff(ofFamily(iptables.Render(p), f), ofFamily(dump(t, ns, iptables.NFT), f)); diff != "" {
					t.Errorf("%s while %s fails (-want +got):\n%s", f, family, diff)
				}
			}
		}
		first, second, third := inBoth(1), inBoth(2), inBoth(3)
		apply(t, target, nil, first)
		cure := before(t, family+"tables-nft-restore", "#!/bin/sh\necho 'line 1 failed: no such luck' >&2\nexit 4\n")
		fails := func(old, new *plan.Plan) {
			t.Helper()
			var refused *plan.Refused
			if err := target.Apply(t.Context(), old, new); err == nil || errors.As(err, &refused) {
				t.Errorf("%s fails, but the change: %v", family, err)
			}
			has(new, other)
			has(first, family)
		}
		fails(first, second)
		fails(nil, third)
		cure()
		apply(t, target, nil, third)
		has(third, family, other)
	}
}

// inBoth is a plan of a Service in both families with some endpoints.
func inBoth(k int) *plan.Plan {
	six := plan.Frontend{Key: plan.Key{IPv6: true, Addr: netip.MustParseAddr("fd00::1"), Protocol: objects.TCP, Port: 80}, Kind: plan.ClusterIP, Outside: plan.Route{Action: plan.Forward}}
	six.Group = six.Key
	for i := range k {
		six.Outside.Endpoints = append(six.Outside.Endpoints, plan.Endpoint{Addr: netip.MustParseAddr(fmt.Sprintf("fd00::a%d", i)), Port: 80})
	}
	p := many(1, k)
	s := p.Services[name(0)]
	s.Frontends = append(s.Frontends, six)
	p.Services[name(0)] = s
	return p
}
