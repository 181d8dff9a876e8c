package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Who has a frontend that several Services claim depends on all of them: the others are in
// the plans of a step too. What was applied becomes what a fresh build makes.
func TestStep(t *testing.T) {
	service := func(name string, ip byte, external ...string) objects.Change {
		s := objects.Service{
			Name: objects.Name{Namespace: "shop", Name: name}, Type: objects.ClusterIP, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, ip})},
			Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80}},
		}
		for _, e := range external {
			s.ExternalIPs = append(s.ExternalIPs, netip.MustParseAddr(e))
		}
		return objects.Change{Service: &s}
	}
	gone := func(name string) objects.Change {
		return objects.Change{Gone: &objects.Gone{Kind: objects.KindService, Name: objects.Name{Namespace: "shop", Name: name}}}
	}
	node := objects.Change{Node: &objects.Node{Name: "here", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
	snap, applied, claims, opt := &objects.Snapshot{}, &Plan{Services: map[objects.Name]Service{}}, &Claims{}, Options{Node: "here"}
	for _, c := range []struct {
		name     string
		changes  []objects.Change
		old, new []string // Services
	}{
		{"the first", []objects.Change{service("a", 1, "198.51.100.1"), service("b", 2)}, nil, []string{"a", "b"}},
		{"one alone", []objects.Change{service("b", 2, "198.51.100.2")}, []string{"b"}, []string{"b"}},
		{"a rival comes", []objects.Change{service("c", 3, "198.51.100.1")}, []string{"a"}, []string{"a", "c"}},
		{"a rival lets go", []objects.Change{service("a", 1)}, []string{"a", "c"}, []string{"a", "c"}},
		{"a chain of rivals", []objects.Change{service("a", 1, "198.51.100.1", "198.51.100.2")}, []string{"a", "b", "c"}, []string{"a", "b", "c"}},
		{"at its end", []objects.Change{service("c", 3, "198.51.100.1", "198.51.100.3")}, []string{"a", "b", "c"}, []string{"a", "b", "c"}},
		{"the middle goes", []objects.Change{gone("a")}, []string{"a", "b", "c"}, []string{"b", "c"}},
		{"four in a row", []objects.Change{service("a", 1, "198.51.100.1"), service("b", 2, "198.51.100.1", "198.51.100.2"), service("c", 3, "198.51.100.2", "198.51.100.3"), service("d", 4, "198.51.100.3")},
			[]string{"b", "c"}, []string{"a", "b", "c", "d"}},
		{"the first of them", []objects.Change{service("a", 1, "198.51.100.1", "198.51.100.9")}, []string{"a", "b", "c", "d"}, []string{"a", "b", "c", "d"}},
		{"three of them go", []objects.Change{gone("a"), gone("d"), service("b", 2)}, []string{"a", "b", "c", "d"}, []string{"b", "c"}},
		{"the node", []objects.Change{node}, nil, nil},
		{"one goes", []objects.Change{gone("c")}, []string{"c"}, nil},
	} {
		dirty, ofNode := Dirty{}, false
		for _, change := range c.changes {
			touched := snap.Apply(change)
			ofNode = ofNode || touched.Node
			dirty.Add(touched)
		}
		before := applied.Node
		old, new := Step(applied, claims, snap, opt, dirty, ofNode)
		if d := cmp.Diff([][]string{c.old, c.new}, [][]string{names(old), names(new)}); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if !old.Node.Equal(before) || !new.Node.Equal(applied.Node) {
			t.Errorf("%s: node %v, then %v", c.name, old.Node, new.Node)
		}
		if want := Build(snap, opt).String(); applied.String() != want {
			t.Errorf("%s (-fresh +applied):\n%s", c.name, cmp.Diff(want, applied.String()))
		}
	}
}

func names(p *Plan) (out []string) {
	for name := range p.Services {
		out = append(out, name.Name)
	}
	slices.Sort(out)
	return out
}

// An endpoint keeps its place among the others while they come and go, and the frontends of
// a port go on sharing one list.
func TestStepKeepsSlots(t *testing.T) {
	snap, applied, claims, opt := &objects.Snapshot{}, &Plan{Services: map[objects.Name]Service{}}, &Claims{}, Options{Node: "here"}
	name := objects.Name{Namespace: "shop", Name: "web"}
	step := func(changes ...objects.Change) (old, new *Plan) {
		dirty := Dirty{}
		for _, c := range changes {
			dirty.Add(snap.Apply(c))
		}
		return Step(applied, claims, snap, opt, dirty, false)
	}
	pods := func(last ...byte) objects.Change {
		s := objects.EndpointSlice{Name: name, Service: name, Ports: []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}}
		for _, b := range last {
			s.Endpoints = append(s.Endpoints, objects.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 244, 0, b}), Ready: true})
		}
		return objects.Change{Slice: &s}
	}
	step(objects.Change{Service: &objects.Service{
		Name: name, Type: objects.NodePort, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: 30080}},
	}})
	for _, c := range []struct{ pods, want []byte }{
		{[]byte{3, 1, 2}, []byte{1, 2, 3}},
		{[]byte{2, 3}, []byte{3, 2}},
		{[]byte{1, 2, 3}, []byte{3, 2, 1}},
		{[]byte{1, 3, 9}, []byte{3, 9, 1}},
	} {
		_, new := step(pods(c.pods...))
		var lists [][]Endpoint
		for _, f := range new.Services[name].Frontends {
			if f.Key.IsWildcard() {
				continue
			}
			lists = append(lists, f.Outside.Endpoints)
			var got []byte
			for _, e := range f.Outside.Endpoints {
				got = append(got, e.Addr.As4()[3])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s with pods %v: order %v, want %v", f.Key, c.pods, got, c.want)
			}
		}
		if len(lists) != 2 || &lists[0][0] != &lists[1][0] {
			t.Errorf("%d frontends do not share one list", len(lists))
		}
	}
	_, new := step(objects.Change{Service: &objects.Service{
		Name: name, Type: objects.NodePort, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}, ExternalIPs: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		Ports: []objects.ServicePort{{Protocol: objects.TCP, Port: 80, NodePort: 30080}},
	}})
	lists := map[*Endpoint]bool{}
	for _, f := range new.Services[name].Frontends {
		if !f.Key.IsWildcard() {
			lists[&f.Outside.Endpoints[0]] = true
		}
	}
	if len(lists) != 1 {
		t.Errorf("a frontend that is new does not share the list of the others: there are %d", len(lists))
	}
}
