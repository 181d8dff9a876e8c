package plan

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// The behaviours are in dataplane/testdata; here is what is true of all plans.

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func key(port uint16) Key {
	return Key{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: objects.TCP, Port: port}
}

func with(n string, f ...Frontend) *Plan {
	return &Plan{Services: map[objects.Name]Service{{Namespace: "ns", Name: n}: {Frontends: f}}}
}

func TestDiff(t *testing.T) {
	forward := Route{Action: Forward, Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Port: 80}}}
	a := Frontend{Key: key(80), Outside: forward}
	b := Frontend{Key: key(80), Outside: Route{Action: Reject}}
	inside := Frontend{Key: key(80), Outside: forward, Inside: &Route{Action: Drop}}
	ending := a
	ending.Outside.Terminating = true
	other := Frontend{Key: key(81), Outside: forward}
	for _, c := range []struct {
		name     string
		old, new *Plan
		set      []*Frontend
		gone     []Key
	}{
		{"same", with("x", a), with("x", a), nil, nil},
		{"from nothing", nil, with("x", a), []*Frontend{&a}, nil},
		{"to nothing", with("x", a), nil, nil, []Key{key(80)}},
		{"changed", with("x", a), with("x", b), []*Frontend{&b}, nil},
		{"terminates, with no other", with("x", a), with("x", ending), nil, nil},
		{"inside added", with("x", a), with("x", inside), []*Frontend{&inside}, nil},
		{"inside same", with("x", inside), with("x", inside), nil, nil},
		{"many", with("x", a, other, Frontend{Key: key(9)}, Frontend{Key: key(70)}), with("x", Frontend{Key: key(300)}, Frontend{Key: key(5)}, b, Frontend{Key: key(7)}),
			[]*Frontend{{Key: key(5)}, {Key: key(7)}, &b, {Key: key(300)}}, []Key{key(9), key(70), key(81)}},
		{"port moved", with("x", a), with("x", other), []*Frontend{&other}, []Key{key(80)}},
		{"handed to another Service", with("x", a), with("y", a), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Diff(c.old, c.new)
			want := Changes{Set: c.set, Gone: c.gone}
			if diff := cmp.Diff(want, got, sameAddr); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a packet may meet makes a difference, alone; what it never meets makes none.
func TestDiffOfEach(t *testing.T) {
	end := []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Port: 80}}
	f := func() Frontend {
		return Frontend{Key: key(80), Kind: LoadBalancer, Outside: Route{Action: Drop}, Inside: &Route{Action: Drop}}
	}
	for what, c := range map[string]struct {
		change func(*Frontend)
		same   bool
	}{
		"kind":                  {change: func(f *Frontend) { f.Kind = ExternalIP }},
		"restricted to nobody":  {change: func(f *Frontend) { f.Restricted = true }},
		"sources":               {change: func(f *Frontend) { f.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} }},
		"affinity":              {change: func(f *Frontend) { f.Affinity = 1 }},
		"group":                 {change: func(f *Frontend) { f.Group = key(81) }},
		"what drains":           {change: func(f *Frontend) { f.Draining = end }},
		"what is not ready":     {change: func(f *Frontend) { f.Unready = end }, same: true},
		"the action outside":    {change: func(f *Frontend) { f.Outside.Action = Reject }},
		"masquerading outside":  {change: func(f *Frontend) { f.Outside.Masquerade = MasqAlways }},
		"the endpoints outside": {change: func(f *Frontend) { f.Outside.Endpoints = end }},
		"that all are ending":   {change: func(f *Frontend) { f.Outside.Terminating = true }, same: true},
		"the action inside":     {change: func(f *Frontend) { f.Inside.Action = Reject }},
		"masquerading inside":   {change: func(f *Frontend) { f.Inside.Masquerade = MasqNode }},
		"the endpoints inside":  {change: func(f *Frontend) { f.Inside.Endpoints = end }},
		"no inside":             {change: func(f *Frontend) { f.Inside = nil }},
	} {
		was, now := f(), f()
		c.change(&now)
		for _, d := range []Changes{Diff(with("x", was), with("x", now)), Diff(with("x", now), with("x", was))} {
			if (len(d.Set) == 0) != c.same || len(d.Gone) > 0 {
				t.Errorf("%s: set %v, gone %v", what, d.Set, d.Gone)
			}
		}
	}
}

func TestDiffNode(t *testing.T) {
	n := Node{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	if got := Diff(&Plan{}, &Plan{Node: n}); got.Node == nil || !got.Node.Equal(n) {
		t.Errorf("node is %v, want the new one", got.Node)
	}
	if got := Diff(&Plan{Node: n}, &Plan{Node: n}); got.Node != nil || len(got.Set)+len(got.Gone) > 0 {
		t.Errorf("changes of an unchanged node: %+v", got)
	}
	for what, next := range map[string]Node{
		"addresses":      {Addrs: n.Addrs[:0]},
		"link":           {Addrs: n.Addrs, LocalLink: "cni0"},
		"pod networks":   {Addrs: n.Addrs, LocalPods: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}},
		"Service ranges": {Addrs: n.Addrs, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		"sockets":        {Addrs: n.Addrs, Sockets: true},
	} {
		if got := Diff(&Plan{Node: n}, &Plan{Node: next}); got.Node == nil || !got.Node.Equal(next) {
			t.Errorf("other %s: the node is %v, want the new one", what, got.Node)
		}
	}
}

// Two Services that claim the same frontend: the first by name has it, however
// often it is asked.
func TestConflict(t *testing.T) {
	p := &Plan{Services: map[objects.Name]Service{}}
	for i := range 9 {
		p.Services[objects.Name{Namespace: "ns", Name: fmt.Sprint(9 - i)}] = Service{Frontends: []Frontend{{Key: key(80), Outside: Route{
			Action: Forward, Endpoints: []Endpoint{{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(9 - i)}), Port: 80}},
		}}}}
	}
	for range 20 {
		out := Resolve(p, Packet{Src: netip.MustParseAddr("10.0.0.9"), Dst: key(80).Addr, Protocol: objects.TCP, Port: 80})
		if len(out.To) != 1 || out.To[0].Endpoint.Addr.String() != "10.0.0.1" {
			t.Fatalf("got %+v, want the endpoint of ns/1", out)
		}
	}
}

// Any objects give a plan that keeps its promises, and the order in which slices
// come does not matter.
func TestRandomObjects(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		snap := randomSnapshot(r)
		for _, opt := range []Options{
			{Node: "here", Terminating: Fallback, NoLocal: Drop, ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
			{Node: "here", Terminating: Ignore, NoLocal: Reject},
		} {
			p := Build(snap, opt)
			if again := Build(snap, opt); again.String() != p.String() {
				t.Fatalf("seed %d: two plans of the same objects:\n%s\n%s", seed, p, again)
			}
			for k, f := range Index(p) {
				checkRoute(t, seed, k, f.Outside)
				if f.Inside != nil {
					checkRoute(t, seed, k, *f.Inside)
				}
			}
		}
	}
}

func checkRoute(t *testing.T, seed uint64, k Key, r Route) {
	t.Helper()
	if (r.Action == Forward) != (len(r.Endpoints) > 0) {
		t.Errorf("seed %d: %s: %s with %d endpoints", seed, k, r.Action, len(r.Endpoints))
	}
	for i, e := range r.Endpoints {
		if e.Addr.Is6() != k.IPv6 {
			t.Errorf("seed %d: %s leads to %s of another family", seed, k, e.Addr)
		}
		if i > 0 && r.Endpoints[i-1].Compare(e) >= 0 {
			t.Errorf("seed %d: %s: endpoints not sorted, or twice: %v", seed, k, r.Endpoints)
		}
	}
}

func randomSnapshot(r *rand.Rand) *objects.Snapshot {
	pick := func(n int) int { return r.IntN(n) }
	addr := func() netip.Addr {
		if pick(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, 0, byte(pick(6))})
		}
		return netip.MustParseAddr(fmt.Sprintf("fd00::%d", pick(6)))
	}
	policy := func() objects.Policy { return []objects.Policy{objects.Cluster, objects.Local}[pick(2)] }
	snap := &objects.Snapshot{Node: &objects.Node{Name: "here", InternalIPs: []netip.Addr{addr(), addr()}}}
	for i := range 1 + pick(4) {
		name := objects.Name{Namespace: "ns", Name: fmt.Sprint(i)}
		svc := objects.Service{
			Name: name, Internal: policy(), External: policy(), HealthCheckNodePort: uint16(pick(2)),
			Type: []objects.Type{objects.ClusterIP, objects.NodePort, objects.LoadBalancer, objects.ExternalName}[pick(4)],
		}
		for range pick(3) {
			svc.ClusterIPs = append(svc.ClusterIPs, addr())
		}
		for range pick(3) {
			svc.Ports = append(svc.Ports, objects.ServicePort{Name: fmt.Sprint(pick(2)), Protocol: []objects.Protocol{objects.TCP, objects.UDP, objects.SCTP}[pick(3)], Port: uint16(1 + pick(3)), NodePort: uint16(pick(3))})
		}
		snap.Apply(objects.Change{Service: &svc})
		for j := range pick(4) {
			sl := objects.EndpointSlice{Name: objects.Name{Namespace: "ns", Name: fmt.Sprint(i, "-", j)}, Service: name, Headless: pick(8) == 0}
			for range pick(3) {
				sl.Ports = append(sl.Ports, objects.SlicePort{Name: fmt.Sprint(pick(2)), Protocol: []objects.Protocol{objects.TCP, objects.UDP, objects.SCTP}[pick(3)], Port: uint16(8000 + pick(2))})
			}
			for range pick(5) {
				sl.Endpoints = append(sl.Endpoints, objects.Endpoint{Addr: addr(), Node: []string{"here", "there", ""}[pick(3)], Ready: pick(2) == 0, Serving: pick(2) == 0, Terminating: pick(2) == 0})
			}
			snap.Apply(objects.Change{Slice: &sl})
		}
	}
	return snap
}

func TestLink(t *testing.T) {
	for _, c := range []struct {
		link Link
		name string
		want bool
	}{
		{"", "", false}, {"", "cni0", false}, {"cni0", "cni0", true}, {"cni0", "cni01", false}, {"cni0", "", false},
		{"cali*", "cali12", true}, {"cali*", "cali", true}, {"cali*", "cal", false}, {"cali*", "", false},
	} {
		if got := c.link.Is(c.name); got != c.want {
			t.Errorf("%q is %q: %t", c.link, c.name, got)
		}
	}
}

func TestLinkPattern(t *testing.T) {
	for link, want := range map[Link]string{"cali*": "cali", "cni0": "cni0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "a-name-of-16-all": "a-name-of-16-all"} {
		if got := string(link.Pattern()); got != want {
			t.Errorf("%q is compared as %q, want %q", link, got, want)
		}
	}
}

// Networks are in order, each once.
func TestSortedPrefixes(t *testing.T) {
	in := prefixes("fd00::/48 10.1.0.0/16 10.0.0.0/8 10.0.0.0/16 10.1.0.0/16 192.168.0.0/24")
	if got, want := sortedPrefixes(in), prefixes("10.0.0.0/8 10.0.0.0/16 10.1.0.0/16 192.168.0.0/24 fd00::/48"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is refused by its source, and what comes from a socket of this node.
func TestResolveKnows(t *testing.T) {
	src := netip.MustParseAddr("192.0.2.1")
	p := with("x", Frontend{Key: key(80), Restricted: true, Outside: Route{Action: Reject}}, Frontend{Key: key(81), Outside: Route{Action: Drop}, Inside: &Route{Action: Reject}}, Frontend{Key: key(83), Outside: Route{Action: Forward, Endpoints: eps("a"), Masquerade: MasqAlways}})
	p.Node.Sockets = true
	sent := func(masquerade bool) Outcome {
		return Outcome{Known: true, Action: Forward, To: []Destination{{Endpoint: eps("a")[0], Probability: 1, Masquerade: masquerade}}}
	}
	for what, c := range map[string]struct {
		pkt  Packet
		want Outcome
	}{
		"a source that may not":   {Packet{Port: 80}, Outcome{Known: true, Action: Drop}},
		"of the node, restricted": {Packet{Port: 80, FromNode: true, Here: true}, Outcome{Known: true, Action: Drop}},
		"from beyond":             {Packet{Port: 81}, Outcome{Known: true, Action: Drop}},
		"of the node":             {Packet{Port: 81, FromNode: true}, Outcome{Known: true, Action: Reject}},
		"of a pod here":           {Packet{Port: 81, Here: true}, Outcome{Known: true, Action: Reject}},
		"forwarded":               {Packet{Port: 83}, sent(true)},
		"forwarded, of the node":  {Packet{Port: 83, FromNode: true}, sent(false)},
		"forwarded, of a pod":     {Packet{Port: 83, Here: true}, sent(false)},
		"for nobody":              {Packet{Port: 82}, Outcome{}},
	} {
		c.pkt.Src, c.pkt.Dst, c.pkt.Protocol = src, key(0).Addr, objects.TCP
		if diff := cmp.Diff(c.want, Resolve(p, c.pkt), sameAddr); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestRefusedSays(t *testing.T) {
	full, bad := errors.New("full"), errors.New("bad")
	for _, c := range []struct {
		of   map[Key]error
		want string
	}{
		{nil, "no frontend refused"},
		{map[Key]error{key(80): full}, "frontend tcp 10.96.0.1:80 refused: full"},
		{map[Key]error{key(81): full, key(80): bad, key(82): full}, "frontend tcp 10.96.0.1:80 refused: bad (and 2 others)"},
	} {
		if got := (&Refused{c.of}).Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestWithout(t *testing.T) {
	p := with("x", Frontend{Key: key(80)}, Frontend{Key: key(81)})
	got := p.Without(map[Key]error{key(80): errors.New("full"), key(9): errors.New("full")})
	if n := slices.Collect(maps.Keys(Index(got))); !slices.Equal(n, []Key{key(81)}) || len(Index(p)) != 2 {
		t.Errorf("left are %v, and of the plan itself %d", n, len(Index(p)))
	}
	if got := (*Plan)(nil).Without(map[Key]error{key(80): errors.New("full")}); got != nil {
		t.Errorf("no plan without a frontend is %v", got)
	}
}

// Which pods count as the node's own.
func TestLocalPods(t *testing.T) {
	p4, c4, c6 := netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/48")
	for _, c := range []struct {
		by         DetectLocal
		node, want []netip.Prefix
	}{
		{"", []netip.Prefix{p4}, []netip.Prefix{c4, c6}},
		{ByClusterCIDR, []netip.Prefix{p4}, []netip.Prefix{c4, c6}},
		{ByNodeCIDR, []netip.Prefix{p4}, []netip.Prefix{p4}},
		{ByNodeCIDR, nil, nil},
		{ByBridge, []netip.Prefix{p4}, nil},
		{ByLinkPrefix, []netip.Prefix{p4}, nil},
	} {
		snap := &objects.Snapshot{Node: &objects.Node{PodCIDRs: c.node}}
		if got := BuildNode(snap, Options{Local: c.by, ClusterCIDRs: []netip.Prefix{c4, c6}}).LocalPods; !slices.Equal(got, c.want) {
			t.Errorf("%s, a Node with %v: %v, want %v", c.by, c.node, got, c.want)
		}
	}
	if got := BuildNode(&objects.Snapshot{}, Options{Local: ByNodeCIDR}).LocalPods; len(got) > 0 {
		t.Errorf("without a Node: %v", got)
	}
}
