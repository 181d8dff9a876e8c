package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// spoil gives the i-th Service of a plan an endpoint of the other family, which
// no kernel takes: the element's data has the wrong length.
func spoil(p *plan.Plan, i int) plan.Key {
	n := objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}
	f := p.Services[n].Frontends[0]
	f.Outside.Endpoints = append([]plan.Endpoint{{Addr: netip.MustParseAddr("fd00::1"), Port: 80, Local: true}}, f.Outside.Endpoints...)
	f.Affinity, f.Group = 5, f.Key
	p.Services[n] = plan.Service{Frontends: []plan.Frontend{f}}
	return f.Key
}

// without is a plan less some frontends.
func without(p *plan.Plan, keys ...plan.Key) *plan.Plan {
	out := &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{}}
	for n, s := range p.Services {
		bad := false
		for _, k := range keys {
			bad = bad || s.Frontends[0].Key == k
		}
		if !bad {
			out.Services[n] = s
		}
	}
	return out
}

func wantRefused(t *testing.T, err error, keys ...plan.Key) {
	t.Helper()
	var refused *plan.Refused
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if len(refused.Frontends) != len(keys) {
		t.Errorf("%d frontends refused, want %d: %v", len(refused.Frontends), len(keys), err)
	}
	for _, k := range keys {
		if refused.Frontends[k] == nil {
			t.Errorf("%v is not among the refused: %v", k, err)
		}
	}
}

func wantKernel(t *testing.T, ns *netns.NS, want *plan.Plan) {
	t.Helper()
	out, err := Dump(ns.FD())
	if diff := cmp.Diff(Render(want), out); diff != "" || err != nil {
		t.Errorf("kernel (-want +got), %v:\n%s", err, diff)
	}
	wantClasses(t, ns)
}

// wantClasses holds that every frontend's class leads to its chain.
func wantClasses(t *testing.T, ns *netns.NS) {
	t.Helper()
	s, err := dump(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	for e := range s.elements.of(func(id setID) bool { return id <= setNodePortsInside }) {
		c, id := parseClass(e.val).chainName(), e.id
		v := viewServices + view(id.set-setServices)
		if got, _ := s.elements.get(elementID{v6: id.v6, set: v.classes(), key: e.val}); got != c || s.chains[chainAt{id.v6, c}].marks == "" {
			t.Errorf("class %s leads to %q, rules %q", c, got, s.chains[chainAt{id.v6, c}].marks)
		}
	}
}

// Frontends that the kernel refuses hold up no others, neither at the start nor
// in a change, and they are served as soon as they are good again.
func TestRefused(t *testing.T) {
	ns := netns.ForTest(t, "refused")
	target := newTest(t, ns)
	bad := some(2500, 2, 1) // several batches
	keys := []plan.Key{spoil(bad, 0), spoil(bad, 1234), spoil(bad, 2499)}
	wantRefused(t, target.Apply(t.Context(), nil, bad), keys...)
	wantKernel(t, ns, without(bad, keys...))

	write(t, ns, func(b *batch) { b.chain(newBoth()[0], chain{name: "witness"}) }) // nothing is replaced or flushed
	good := some(2500, 2, 2)
	if err := target.Apply(t.Context(), bad, good); err != nil {
		t.Fatal(err)
	}
	wantKernel(t, ns, good)

	wantRefused(t, target.Apply(t.Context(), good, bad), keys...)
	mixed := without(bad, keys...) // those refused are as they were
	for _, i := range []int{0, 1234, 2499} {
		n := objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}
		mixed.Services[n] = good.Services[n]
	}
	wantKernel(t, ns, mixed)

	// A restart finds what was there of them and leaves nothing of it.
	wantRefused(t, newTest(t, ns).Apply(t.Context(), nil, bad), keys...)
	wantKernel(t, ns, without(bad, keys...))
	if got := chains(t, ns); !strings.Contains(got, "witness") {
		t.Errorf("the table was replaced; chains: %s", got)
	}

	// While the first batch is at fault itself, nobody is blamed for it.
	broken := some(3, 2, 1)
	broken.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	again := newTest(t, ns)
	if err := again.Apply(t.Context(), nil, some(3, 2, 1)); err != nil {
		t.Fatal(err)
	}
	again.fault = func() error { return unix.ENOBUFS }
	var refused *plan.Refused
	if err := again.Apply(t.Context(), some(3, 2, 1), broken); err == nil || errors.As(err, &refused) {
		t.Errorf("got %v, want an error that refuses nothing", err)
	}
}

// A change that is refused in part leaves the mirror as the kernel is: what
// follows is applied by difference.
func TestRefusedMirror(t *testing.T) {
	ns := netns.ForTest(t, "mirror")
	target := newTest(t, ns)
	states := []*plan.Plan{some(20, 3, 1), some(20, 2, 2), some(10, 4, 3)}
	for i, p := range states { // affinity and hairpins are counted
		for n, s := range p.Services {
			f := s.Frontends[0]
			f.Affinity, f.Group = 10, f.Key
			f.Outside.Endpoints[0].Local = true
			p.Services[n] = plan.Service{Frontends: []plan.Frontend{f}}
		}
		states[i] = p
	}
	if err := target.Apply(t.Context(), nil, states[0]); err != nil {
		t.Fatal(err)
	}
	bad := some(20, 5, 4)
	keys := []plan.Key{spoil(bad, 3), spoil(bad, 17)}
	wantRefused(t, target.Apply(t.Context(), states[0], bad), keys...)
	old := bad
	for _, p := range states[1:] {
		if err := target.Apply(t.Context(), old, p); err != nil {
			t.Fatal(err)
		}
		wantKernel(t, ns, p)
		old = p
	}
	if err := target.Apply(t.Context(), old, &plan.Plan{}); err != nil {
		t.Fatal(err)
	}
	wantKernel(t, ns, &plan.Plan{})
	if len(target.hairpins) > 0 || len(target.groups.used) > 0 || len(target.groups.taken) > 0 || len(target.fronts) > 0 {
		t.Errorf("the mirror still has %d hairpins, %d groups, %d numbers, %d frontends",
			len(target.hairpins), len(target.groups.used), len(target.groups.taken), len(target.fronts))
	}
}

// One frontend that no batch can hold stops nobody else, and one that fits only
// by itself is served, wherever they stand among the others.
func TestTooLarge(t *testing.T) {
	const wide, huge = 900, 2500 // endpoints; more than half of the room, and more than all of it
	ns := netns.ForTest(t, "large")
	target := newTest(t, ns)
	target.dialled = narrow(t)
	few := some(300, 2, 1)
	p := some(300, 2, 2)
	n := func(i int) objects.Name { return objects.Name{Namespace: "ns", Name: fmt.Sprint(i)} }
	for i, k := range map[int]int{0: wide, 100: huge, 101: wide, 102: wide, 150: wide, 290: huge, 299: wide} {
		p.Services[n(i)] = some(300, k, 2).Services[n(i)]
	}
	refused := []plan.Key{p.Services[n(100)].Frontends[0].Key, p.Services[n(290)].Frontends[0].Key}
	wantRefused(t, target.Apply(t.Context(), nil, p), refused...)
	wantKernel(t, ns, without(p, refused...))
	if err := target.Apply(t.Context(), p, few); err != nil {
		t.Fatal(err)
	}
	wantKernel(t, ns, few)
	err := target.Apply(t.Context(), few, p)
	wantRefused(t, err, refused...)
	if !strings.Contains(err.Error(), "raise the sysctl net.core.wmem_max") {
		t.Errorf("no advice: %v", err)
	}
	for _, i := range []int{100, 290} { // as they were
		p.Services[n(i)] = few.Services[n(i)]
	}
	wantKernel(t, ns, p)
}

// On a kernel without nftables for IPv6, or without nat in it, IPv4 is served, IPv6 is refused,
// and one warning says so.
func TestWithoutIPv6(t *testing.T) {
	for name, lack := range map[string]func(*batch) error{
		"family": func(*batch) error { return unix.EAFNOSUPPORT },
		"nat": func(b *batch) error {
			if slices.ContainsFunc(b.msgs, func(m netlink.Message) bool { return bytes.Contains(m.Data, []byte("nat\x00")) }) {
				return unix.ENOENT
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { withoutIPv6(t, lack) })
	}
}

func withoutIPv6(t *testing.T, lack func(*batch) error) {
	ns := netns.ForTest(t, "four")
	var said bytes.Buffer
	target := New(Config{Logger: slog.New(slog.NewTextHandler(&said, nil)), NetNS: ns.FD()})
	t.Cleanup(func() { _ = target.Close() })
	target.kernel = lack
	p := some(3, 2, 1)
	p.Node.Addrs = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	if err := target.Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	if !target.WithoutIPv6() {
		t.Error("the Target says nothing of it")
	}
	v4 := *p
	v4.Node.Addrs = p.Node.Addrs[:1]
	wantKernel(t, ns, &v4)

	six := some(3, 2, 1)
	six.Node = p.Node
	key := plan.Key{IPv6: true, Addr: netip.MustParseAddr("fd00::1"), Protocol: objects.TCP, Port: 80}
	six.Services[objects.Name{Namespace: "six"}] = plan.Service{Frontends: []plan.Frontend{{Key: key, Outside: plan.Route{Action: plan.Reject}}}}
	wantRefused(t, target.Apply(t.Context(), p, six), key)
	wantRefused(t, target.Apply(t.Context(), nil, six), key)
	wantKernel(t, ns, &v4)
	if err := target.Apply(t.Context(), six, p); err != nil {
		t.Errorf("a refused frontend that goes away: %v", err)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, said.String())
	}
	target.kernel = nil // a reload of the module, say
	if err := target.Apply(t.Context(), nil, six); err != nil {
		t.Fatal(err)
	}
	wantKernel(t, ns, six)
	if target.WithoutIPv6() {
		t.Error("the Target says that it is still missing")
	}
}
