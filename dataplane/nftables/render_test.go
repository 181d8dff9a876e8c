package nftables

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/plan"
)

func eps(letters string) []plan.Endpoint {
	var out []plan.Endpoint
	for _, l := range letters {
		out = append(out, plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(l)}), Port: 80})
	}
	return out
}

func TestIntervals(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"10.244.0.0/16", "10.244.0.0 10.245.0.0)"},
		{"10.0.0.0/8 10.244.0.0/16", "10.0.0.0 11.0.0.0)"},
		{"192.168.0.0/24 192.168.1.0/24", "192.168.0.0 192.168.1.0) 192.168.1.0 192.168.2.0)"},
		{"10.1.2.3/32", "10.1.2.3 10.1.2.4)"},
		{"172.16.0.0/12", "172.16.0.0 172.32.0.0)"},
		{"240.0.0.0/4", "240.0.0.0"}, // no end: there is no address past it
		{"0.0.0.0/0", "0.0.0.0"},
		{"fd00::/8", "fd00:: fe00::)"},
	} {
		var prefixes []netip.Prefix
		for _, s := range strings.Fields(c.in) {
			prefixes = append(prefixes, netip.MustParsePrefix(s))
		}
		var got []string
		for _, e := range intervals(setLocalPods, prefixes) {
			a, _ := netip.AddrFromSlice([]byte(e.id.key))
			s := a.String()
			if e.id.end {
				s += ")"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.in, s, c.want)
		}
	}
}

func element(key, val string) Element {
	return Element{id: elementID{set: setServices, key: key}, val: val}
}

func TestOpsFold(t *testing.T) {
	a1, a2 := element("a", "1"), element("a", "2")
	for _, c := range []struct {
		name string
		do   func(*ops)
		want string
	}{
		{"add", func(o *ops) { o.add(a1) }, "+a1"},
		{"delete", func(o *ops) { o.del(a1) }, "-a1"},
		{"replace", func(o *ops) { o.del(a1); o.add(a2) }, "-a1 +a2"},
		{"given and taken", func(o *ops) { o.add(a1); o.del(a1) }, ""},
		{"taken and given back", func(o *ops) { o.del(a1); o.add(a1) }, ""},
		{"taken, given, changed", func(o *ops) { o.del(a1); o.add(a1); o.del(a1); o.add(a2) }, "-a1 +a2"},
		{"lists", func(o *ops) {
			o.replace([]Element{a1, element("b", "1"), element("c", "1")}, []Element{a2, element("b", "1"), element("d", "1")})
		}, "-a1 -c1 +a2 +d1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOps()
			c.do(o)
			dels, adds := o.lists()
			var got []string
			for _, e := range slices.Concat(dels...) {
				got = append(got, "-"+e.id.key+e.val)
			}
			for _, e := range slices.Concat(adds...) {
				got = append(got, "+"+e.id.key+e.val)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

// What is read back from the kernel's bytes is what was rendered.
func TestEndpointBytes(t *testing.T) {
	for _, s := range []string{"10.1.2.3:80", "[fd00::1]:65535"} {
		ap := netip.MustParseAddrPort(s)
		want := plan.Endpoint{Addr: ap.Addr(), Port: ap.Port()}
		got, ok := parseEndpoint(endpointBytes(want))
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || !ok {
			t.Errorf("%s (-want +got):\n%s", s, diff)
		}
	}
}

// An old state with a gap in its slots (a write that another program made) must
// not confuse the order.
func TestSlotsWithGap(t *testing.T) {
	k := plan.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: 6, Port: 80}
	s := newState()
	for i, e := range eps("abcd") {
		if i != 2 {
			s.elements.put(Element{elementID{set: viewServices.slots(slotPart(frontendKey(k))), key: slotKey(frontendKey(k), uint32(i))}, endpointBytes(e)})
		}
	}
	if got := s.slots(k, viewServices, 4); !slices.Equal(got, eps("ab")) {
		t.Errorf("got %v, want the two before the gap", got)
	}
}

// The mirror has the plan's own frontend only while its endpoints are that one's list: another
// order, or another length, is its own.
func TestMirror(t *testing.T) {
	list := eps("abc")
	from := plan.Frontend{Outside: plan.Route{Endpoints: list}, Inside: &plan.Route{Endpoints: list[:2]}}
	for _, c := range []struct {
		what            string
		outside, inside []plan.Endpoint
		shared          bool
	}{
		{"the same", list, list[:2], true},
		{"another order outside", eps("cba"), list[:2], false},
		{"another order inside", list, eps("ba"), false},
		{"fewer outside", list[:2], list[:2], false},
		{"more inside", list, list, false},
		{"none inside", list, nil, false},
	} {
		f := kernelFrontend{Frontend: plan.Frontend{Outside: plan.Route{Endpoints: c.outside}, Inside: &plan.Route{Endpoints: c.inside}}, group: 7}
		got := mirror(f, &from)
		if shared := got.front == &from; shared != c.shared || !slices.Equal(got.front.Outside.Endpoints, c.outside) || !slices.Equal(got.front.Inside.Endpoints, c.inside) || got.group != 7 {
			t.Errorf("%s: the plan's own: %t, outside %v, inside %v", c.what, shared, got.front.Outside.Endpoints, got.front.Inside.Endpoints)
		}
	}
	bare := plan.Frontend{Outside: plan.Route{Endpoints: list}}
	if got := mirror(kernelFrontend{Frontend: bare}, &bare); got.front != &bare {
		t.Error("without an inside: not the plan's own")
	}
}

// Of two states of a frontend only the slots that differ are rendered, in each of its views.
func TestElementsThatDiffer(t *testing.T) {
	f := kernelFrontend{Frontend: plan.Frontend{Key: plan.Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: 6, Port: 80}}}
	with := func(outside, inside string) kernelFrontend {
		f := f
		f.Outside = plan.Route{Action: plan.Forward, Endpoints: eps(outside)}
		if inside != "" {
			f.Inside = &plan.Route{Action: plan.Forward, Endpoints: eps(inside)}
		}
		return f
	}
	for _, c := range []struct {
		now, was kernelFrontend
		want     string // endpoints of slots, outside before inside
	}{
		{with("abc", ""), with("abc", ""), ""},
		{with("axc", ""), with("abcd", ""), "x"},
		{with("abcd", ""), with("ab", ""), "cd"},
		{with("a", "abc"), with("a", "axc"), "b"},
		{with("b", "abc"), with("a", ""), "babc"},
		{with("a", ""), with("a", "abc"), ""},
	} {
		var got strings.Builder
		for _, e := range c.now.elements(&c.was) {
			if at, ok := parseEndpoint(e.val); ok {
				got.WriteByte(at.Addr.As4()[3])
			}
		}
		if got.String() != c.want {
			t.Errorf("%s and %v, after %s and %v: slots with %q, want %q", c.now.Outside, c.now.Inside, c.was.Outside, c.was.Inside, got.String(), c.want)
		}
	}
}

// A frontend's connections are masqueraded by the route that forwards them.
func TestMasqueradeSet(t *testing.T) {
	forward := func(m plan.Masquerade) plan.Route { return plan.Route{Action: plan.Forward, Masquerade: m} }
	node, keep, refused := forward(plan.MasqNode), forward(plan.KeepSource), plan.Route{Action: plan.Reject, Masquerade: plan.MasqNode}
	for _, c := range []struct {
		outside plan.Route
		inside  *plan.Route
		want    setID // 0: none
	}{
		{forward(plan.MasqOffCluster), nil, setMasqOffCluster},
		{forward(plan.MasqAlways), nil, setMasqAlways},
		{node, nil, setMasqNode},
		{keep, nil, 0},
		{refused, nil, 0},
		{refused, &node, setMasqNode},
		{keep, &keep, 0},
		{keep, &refused, 0},
		{forward(plan.MasqAlways), &refused, setMasqAlways},
	} {
		got, ok := masqueradeSet(plan.Frontend{Key: plan.Key{Addr: netip.MustParseAddr("10.96.0.1")}, Outside: c.outside, Inside: c.inside})
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("outside %s, inside %v: set %d, %t; want %d", c.outside, c.inside, got, ok, c.want)
		}
	}
}
