package nftables

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func TestGroups(t *testing.T) {
	g := newGroups()
	key := func(i byte) plan.Key {
		return plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96, 0, i}), Protocol: objects.TCP, Port: 80}
	}
	a := g.join(key(1))
	if g.join(key(1)) != a {
		t.Error("two frontends of a group have different numbers")
	}
	g.reserve(key(2), a)
	if b := g.join(key(2)); b == a {
		t.Error("two groups have one number")
	}
	g.leave(key(1))
	if g.join(key(1)) != a {
		t.Error("a group changed its number while one frontend was left")
	}
	g.leave(key(1))
	g.reserve(key(5), a)
	if e := g.join(key(5)); e == a {
		t.Error("another group got the number of one that had a frontend left")
	}
	// Whoever has the hash's number of another group: the next free one.
	g.reserve(key(3), groupHash(key(4)))
	if c := g.join(key(4)); c != groupHash(key(4))+1 {
		t.Errorf("got %d, want the number after %d", c, groupHash(key(4)))
	}
	g.join(key(3))
	for _, i := range []byte{1, 2, 3, 4, 5} {
		g.leave(key(i))
	}
	if len(g.used)+len(g.taken) > 0 {
		t.Errorf("left over: %v %v", g.used, g.taken)
	}
}

// The values that lookup3.c (Bob Jenkins, driver5) names for itself, of which the kernel's jhash is
// a copy.
func TestJhash(t *testing.T) {
	const text = "Four score and seven years ago"
	for _, c := range []struct {
		key        string
		seed, want uint32
	}{{"", 0, 0xdeadbeef}, {"", 0xdeadbeef, 0xbd5b7dde}, {text, 0, 0x17770551}, {text, 1, 0xcd628161}} {
		if got := jhash(c.key, c.seed); got != c.want {
			t.Errorf("of %q from %#x: %#x, want %#x", c.key, c.seed, got, c.want)
		}
	}
}

// Clients are remembered where a route forwards, from outside or inside.
func TestRemembers(t *testing.T) {
	forward, drop := plan.Route{Action: plan.Forward}, plan.Route{Action: plan.Drop}
	for _, c := range []struct {
		f    plan.Frontend
		want bool
	}{
		{plan.Frontend{Affinity: 1, Outside: forward}, true},
		{plan.Frontend{Affinity: 1, Outside: drop}, false},
		{plan.Frontend{Affinity: 1, Outside: drop, Inside: &forward}, true},
		{plan.Frontend{Affinity: 1, Outside: forward, Inside: &drop}, true},
		{plan.Frontend{Affinity: 1, Outside: drop, Inside: &drop}, false},
		{plan.Frontend{Outside: forward, Inside: &forward}, false},
	} {
		if got := remembers(c.f); got != c.want {
			t.Errorf("affinity %v, outside %s, inside %v: %t", c.f.Affinity, c.f.Outside, c.f.Inside, got)
		}
	}
}

// remembered reads the memory of clients: endpoint numbers by source address.
func remembered(t *testing.T, ns *netns.NS, v6 bool) map[netip.Addr]uint32 {
	t.Helper()
	c, err := dial(ns.FD(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, out := newBoth().of(v6), map[netip.Addr]uint32{}
	err = c.ask(f, unix.NFT_MSG_GETSETELEM, netlink.Dump, setRequest(f, setAffinity).bytes, func(_ uint16, a string) {
		attrs(attr(a, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, item string) {
			e := parseElement(f, setAffinity, item)
			src, _ := netip.AddrFromSlice([]byte(e.id.key[:len(e.id.key)-4]))
			out[src] = binary.NativeEndian.Uint32([]byte(e.val))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The number that the kernel computes of an endpoint is ours, in both families,
// and what it remembers survives a restart and changes of other Services.
func TestMemorySurvives(t *testing.T) {
	n := dptest.NewNet(t)
	for _, c := range []struct{ name, vip, client, a, b string }{
		{"ip", "10.96.0.10", "192.0.2.100", "10.244.1.2", "10.244.1.6"},
		{"ip6", "fd00:10:96::10", "2001:db8:2::100", "fd00:10:244:1::2", "fd00:10:244:1::6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vip, client := netip.MustParseAddr(c.vip), netip.MustParseAddr(c.client)
			eps := []plan.Endpoint{{Addr: netip.MustParseAddr(c.a), Port: 8080}, {Addr: netip.MustParseAddr(c.b), Port: 8081}}
			key := plan.Key{IPv6: vip.Is6(), Addr: vip, Protocol: objects.UDP, Port: 53}
			f := plan.Frontend{Kind: plan.ClusterIP, Key: key, Group: key, Affinity: time.Hour, Outside: plan.Route{Action: plan.Forward, Endpoints: eps}}
			with := func(extra *plan.Plan) *plan.Plan {
				p := some(0, 0, 0)
				for name, s := range extra.Services {
					p.Services[name] = s
				}
				p.Services[objects.Name{Name: "sticky"}] = plan.Service{Frontends: []plan.Frontend{f}}
				return p
			}
			p := with(some(3, 2, 1))
			if err := newTest(t, n.Node).Apply(t.Context(), nil, p); err != nil {
				t.Fatal(err)
			}
			// A packet is enough: it is remembered when it leaves, answered or not.
			send := func() uint32 {
				t.Helper()
				for range 5 { // new connections, of new source ports
					if err := n.Place(dptest.Outside).Do(func() error { return sendTo(t.Context(), netip.AddrPortFrom(vip, 53)) }); err != nil {
						t.Fatal(err)
					}
				}
				return remembered(t, n.Node, vip.Is6())[client]
			}
			got := send()
			if got != endpointNumber(eps[0]) && got != endpointNumber(eps[1]) {
				t.Fatalf("the kernel remembers %d, the endpoints have %d and %d", got, endpointNumber(eps[0]), endpointNumber(eps[1]))
			}
			for i := range 10 {
				next := with(some(3+i, 2, byte(i)))
				target := newTest(t, n.Node)
				if err := target.Apply(t.Context(), nil, p); err != nil {
					t.Fatal(err)
				}
				if err := target.Apply(t.Context(), p, next); err != nil {
					t.Fatal(err)
				}
				p = next
				if now := send(); now != got {
					t.Fatalf("after restart %d the client is at %d, before at %d", i, now, got)
				}
			}
			// The endpoint goes: the client is taken to the other one at once.
			left := eps[0]
			if got == endpointNumber(eps[0]) {
				left = eps[1]
			}
			f.Outside.Endpoints = []plan.Endpoint{left}
			if err := newTest(t, n.Node).Apply(t.Context(), nil, with(some(3, 2, 1))); err != nil {
				t.Fatal(err)
			}
			if now := send(); now != endpointNumber(left) {
				t.Errorf("after its endpoint went the client is at %d, want %d", now, endpointNumber(left))
			}
		})
	}
}

// A client of an endpoint on the node itself is remembered as well: such packets
// never reach postrouting.
func TestMemoryOfNodeEndpoint(t *testing.T) {
	n := dptest.NewNet(t)
	vip, self := netip.MustParseAddr("10.96.0.10"), dptest.Self.Addrs()[0]
	key := plan.Key{Addr: vip, Protocol: objects.UDP, Port: 53}
	e := plan.Endpoint{Addr: self, Port: 8080, Local: true}
	f := plan.Frontend{Kind: plan.ClusterIP, Key: key, Group: key, Affinity: time.Hour, Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{e}}}
	p := &plan.Plan{Services: map[objects.Name]plan.Service{{Name: "self"}: {Frontends: []plan.Frontend{f}}}}
	if err := newTest(t, n.Node).Apply(t.Context(), nil, p); err != nil {
		t.Fatal(err)
	}
	for _, from := range []dptest.Source{dptest.Outside, dptest.Self} {
		if err := n.Place(from).Do(func() error { return sendTo(t.Context(), netip.AddrPortFrom(vip, 53)) }); err != nil {
			t.Fatal(err)
		}
	}
	got := remembered(t, n.Node, false)
	want := endpointNumber(e)
	if got[dptest.Outside.Addrs()[0]] != want {
		t.Errorf("remembered %v, want %d for %s", got, want, dptest.Outside)
	}
	if len(got) != 2 {
		t.Errorf("remembered %v, want the client outside and the node", got)
	}
}

// A restart keeps a group's number even if it is not the hash's.
func TestGroupNumberKept(t *testing.T) {
	ns := netns.ForTest(t, "kept")
	p := some(1, 2, 1)
	for name, s := range p.Services {
		f := s.Frontends[0]
		f.Group, f.Affinity = f.Key, time.Hour
		p.Services[name] = plan.Service{Frontends: []plan.Frontend{f}}
		id := elementID{set: setGroups, key: frontendKey(f.Key)}
		if err := newTest(t, ns).Apply(t.Context(), nil, p); err != nil {
			t.Fatal(err)
		}
		write(t, ns, func(b *batch) {
			b.elements(newBoth()[0], setGroups, unix.NFT_MSG_DELSETELEM, []Element{{id, numberBytes(groupHash(f.Key))}})
			b.elements(newBoth()[0], setGroups, unix.NFT_MSG_NEWSETELEM, []Element{{id, numberBytes(7)}})
		})
		if err := newTest(t, ns).Apply(t.Context(), nil, p); err != nil {
			t.Fatal(err)
		}
		s, err := dump(ns.FD())
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.elements.get(id); got != numberBytes(7) {
			t.Errorf("the group's number is %x", got)
		}
	}
}

// However many endpoints and Services: one lookup, and rules for each timeout.
func TestAffinityRulesAreConstant(t *testing.T) {
	ns := netns.ForTest(t, "sticky")
	target := newTest(t, ns)
	plans := func(n int, timeouts ...time.Duration) *plan.Plan {
		p := some(n, 50, 1)
		i := 0
		for name, s := range p.Services {
			f := s.Frontends[0]
			f.Group, f.Affinity = f.Key, timeouts[i%len(timeouts)]
			p.Services[name] = plan.Service{Frontends: []plan.Frontend{f}}
			i++
		}
		return p
	}
	var before []string
	old := &plan.Plan{}
	if err := target.Apply(t.Context(), nil, old); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*plan.Plan{plans(1, time.Hour), plans(500, time.Hour)} {
		if err := target.Apply(t.Context(), old, p); err != nil {
			t.Fatal(err)
		}
		old = p
		before = append(before, chains(t, ns))
	}
	if before[0] != before[1] {
		t.Errorf("chains with one Service: %s; with 500: %s", before[0], before[1])
	}
	p := plans(500, time.Hour, time.Minute, time.Second)
	was := len(target.chains)
	if err := target.Apply(t.Context(), old, p); err != nil {
		t.Fatal(err)
	}
	if got := len(target.chains) - was; got != 2 {
		t.Errorf("two more timeouts made %d chains", got)
	}
}
