package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// What the cases of dataplane/testdata do not tell apart: objects that the API server does not
// let through at once, but one after another, and what no packet shows.

var web = objects.Name{Namespace: "shop", Name: "web"}

// built is the Service web with these slices as a node "here" has it.
func built(t *testing.T, opt Options, svc objects.Service, all ...objects.EndpointSlice) Service {
	t.Helper()
	svc.Name = web
	if svc.ClusterIPs == nil {
		svc.ClusterIPs = []netip.Addr{key(0).Addr}
	}
	if svc.Ports == nil {
		svc.Ports = []objects.ServicePort{{Protocol: objects.TCP, Port: 80}}
	}
	snap := &objects.Snapshot{}
	snap.Apply(objects.Change{Service: &svc})
	for i, s := range all {
		s.Name, s.Service = objects.Name{Namespace: web.Namespace, Name: fmt.Sprint("web-", i)}, web
		if s.Ports == nil {
			s.Ports = []objects.SlicePort{{Protocol: objects.TCP, Port: 8080}}
		}
		snap.Apply(objects.Change{Slice: &s})
	}
	out, _ := BuildService(snap, web, opt)
	return out
}

func at(t *testing.T, s Service, k Key) Frontend {
	t.Helper()
	i := slices.IndexFunc(s.Frontends, func(f Frontend) bool { return f.Key == k })
	if i < 0 {
		t.Fatalf("no frontend %s", k)
	}
	return s.Frontends[i]
}

var pod = netip.MustParseAddr("10.0.0.1")

// One endpoint in two slices counts once, in its better state, whichever slice comes first.
func TestBetterState(t *testing.T) {
	ready := objects.Endpoint{Addr: pod, Ready: true, Serving: true}
	with := func(change func(*objects.Endpoint)) objects.Endpoint {
		e := ready
		change(&e)
		return e
	}
	for what, c := range map[string]struct {
		better, worse objects.Endpoint
		shows         func(Service) bool
	}{
		"ready before serving": {ready, with(func(e *objects.Endpoint) { e.Ready = false }), func(s Service) bool { return at(t, s, key(80)).Outside.Action == Forward }},
		"not terminating before ready": {with(func(e *objects.Endpoint) { e.Ready = false }), with(func(e *objects.Endpoint) { e.Terminating = true }), func(s Service) bool {
			return at(t, s, key(80)).Outside.Action == Reject
		}},
		"serving before not": {with(func(e *objects.Endpoint) { e.Ready = false }), with(func(e *objects.Endpoint) { e.Ready, e.Serving = false, false }), func(s Service) bool {
			return len(at(t, s, key(80)).Draining) == 1
		}},
		"the first node": {with(func(e *objects.Endpoint) { e.Node = "here" }), with(func(e *objects.Endpoint) { e.Node = "there" }), func(s Service) bool {
			return at(t, s, key(80)).Outside.Endpoints[0].Local
		}},
		"the first zones": {with(func(e *objects.Endpoint) { e.Hints = &objects.Hints{Zones: []string{"a"}, Nodes: []string{"there"}} }),
			with(func(e *objects.Endpoint) { e.Hints = &objects.Hints{Zones: []string{"b"}, Nodes: []string{"here"}} }), func(s Service) bool {
				return len(at(t, s, key(80)).Outside.Endpoints) == 2 // of which none is hinted at this node
			}},
		"the first nodes": {with(func(e *objects.Endpoint) { e.Hints = &objects.Hints{Nodes: []string{"here"}} }),
			with(func(e *objects.Endpoint) { e.Hints = &objects.Hints{Nodes: []string{"there"}} }), func(s Service) bool {
				return len(at(t, s, key(80)).Outside.Endpoints) == 1
			}},
	} {
		other := objects.EndpointSlice{Endpoints: []objects.Endpoint{{Addr: pod.Next(), Ready: true, Hints: &objects.Hints{Nodes: []string{"there"}}}}}
		if c.better.Hints == nil {
			other.Endpoints = nil
		}
		a, b := objects.EndpointSlice{Endpoints: []objects.Endpoint{c.better}}, objects.EndpointSlice{Endpoints: []objects.Endpoint{c.worse}}
		for _, order := range [][]objects.EndpointSlice{{a, b, other}, {b, a, other}} {
			if s := built(t, Options{Node: "here"}, objects.Service{}, order...); !c.shows(s) {
				t.Errorf("%s: %+v", what, s)
			}
		}
	}
}

// A port's endpoints are those of the slices' port of its name and protocol: a slice may be
// older than the Service.
func TestPortOfSlice(t *testing.T) {
	eps := []objects.Endpoint{{Addr: pod, Ready: true}}
	for what, c := range map[string]struct {
		port objects.SlicePort
		want Action
	}{
		"the same":         {objects.SlicePort{Name: "http", Protocol: objects.TCP, Port: 8080}, Forward},
		"another protocol": {objects.SlicePort{Name: "http", Protocol: objects.UDP, Port: 8080}, Reject},
		"another name":     {objects.SlicePort{Name: "https", Protocol: objects.TCP, Port: 8080}, Reject},
	} {
		s := built(t, Options{}, objects.Service{Ports: []objects.ServicePort{{Name: "http", Protocol: objects.TCP, Port: 80}}}, objects.EndpointSlice{Ports: []objects.SlicePort{c.port}, Endpoints: eps})
		if got := at(t, s, key(80)).Outside.Action; got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

// An endpoint of no node is local to none, nor to who has no name yet.
func TestEndpointWithoutNode(t *testing.T) {
	s := built(t, Options{}, objects.Service{}, objects.EndpointSlice{Endpoints: []objects.Endpoint{{Addr: pod, Ready: true}}})
	if e := at(t, s, key(80)).Outside.Endpoints; len(e) != 1 || e[0].Local {
		t.Errorf("endpoints %+v", e)
	}
}

// Routes say that all they have left terminates; what is ready and not used drains, serving or not.
func TestTerminatingAndDraining(t *testing.T) {
	slice := objects.EndpointSlice{Endpoints: []objects.Endpoint{{Addr: pod, Node: "there", Serving: true, Terminating: true}}}
	for ready, want := range map[bool]bool{true: false, false: true} {
		slice.Endpoints[0].Ready = ready
		if r := at(t, built(t, Options{Terminating: Fallback}, objects.Service{}, slice), key(80)).Outside; r.Action != Forward || r.Terminating != want {
			t.Errorf("a terminating endpoint, ready %t: %+v", ready, r)
		}
	}
	slice.Endpoints[0] = objects.Endpoint{Addr: pod, Node: "there", Ready: true}
	f := at(t, built(t, Options{Node: "here"}, objects.Service{Internal: objects.Local}, slice), key(80))
	if len(f.Draining) != 1 || len(f.Unready) > 0 {
		t.Errorf("a ready endpoint elsewhere: %+v", f)
	}
}

// A Service that has become an ExternalName is nobody's to serve, whatever addresses it still has;
// all that an address does not claim is its ClusterIP's.
func TestWhatIsServed(t *testing.T) {
	if s := built(t, Options{}, objects.Service{Type: objects.ExternalName}); len(s.Frontends) > 0 {
		t.Errorf("an ExternalName has %v", s.Frontends)
	}
	rest := at(t, built(t, Options{}, objects.Service{Type: objects.ClusterIP}), Key{Addr: key(0).Addr})
	if want := (Frontend{Key: rest.Key, Kind: ClusterIP, Outside: Route{Action: Reject}}); !cmp.Equal(want, rest, sameAddr) {
		t.Errorf("the rest of an address is %+v, want %+v", rest, want)
	}
}

// An address that is the load balancer's and an external IP is the load balancer's, with its
// source ranges, at each of many ports.
func TestOneAddressTwice(t *testing.T) {
	svc := objects.Service{LoadBalancerIPs: []netip.Addr{pod}, ExternalIPs: []netip.Addr{pod}, SourceRanges: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for port := range uint16(40) {
		svc.Ports = append(svc.Ports, objects.ServicePort{Name: fmt.Sprint(port), Protocol: objects.TCP, Port: 1 + port*17%40})
	}
	s := built(t, Options{}, svc)
	for _, port := range svc.Ports {
		k := Key{Addr: pod, Protocol: objects.TCP, Port: port.Port}
		if f := at(t, s, k); f.Kind != LoadBalancer || !f.Restricted {
			t.Errorf("%s: %s, restricted %t", k, f.Kind, f.Restricted)
		}
	}
}

// Endpoints that are addresses of Services are named.
func TestWarnings(t *testing.T) {
	external := pod.Next()
	s := built(t, Options{}, objects.Service{ExternalIPs: []netip.Addr{external}},
		objects.EndpointSlice{Endpoints: []objects.Endpoint{{Addr: key(0).Addr, Ready: true}, {Addr: external, Ready: true}, {Addr: pod, Ready: true}}})
	want := []string{"endpoint 10.0.0.2 is an external address of a Service: sent there as it is", "endpoint 10.96.0.1 is the ClusterIP of a Service: left out"}
	if diff := cmp.Diff(want, s.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Where node ports are served: at the Node's first address of a family, or at all of the node's,
// known by its object or not, inside the networks given.
func TestNodePortAddresses(t *testing.T) {
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	snap := &objects.Snapshot{Node: &objects.Node{InternalIPs: addrs("192.0.2.2", "192.0.2.1", "2001:db8::1")}, Local: addrs("198.51.100.1", "192.0.2.9", "192.0.2.2", "203.0.113.1")}
	for within, want := range map[string][]netip.Addr{
		"":                              addrs("192.0.2.2", "2001:db8::1"),
		"192.0.2.0/24":                  addrs("192.0.2.1", "192.0.2.2", "192.0.2.9"),
		"198.51.100.0/24 2001:db8::/32": addrs("198.51.100.1", "2001:db8::1"),
		"0.0.0.0/0":                     addrs("192.0.2.1", "192.0.2.2", "192.0.2.9", "198.51.100.1", "203.0.113.1"),
	} {
		if got := BuildNode(snap, Options{NodePorts: NodePortAddresses{Within: prefixes(within)}}).Addrs; !slices.Equal(got, want) {
			t.Errorf("within %q: %v, want %v", within, got, want)
		}
	}
}

func prefixes(text string) (out []netip.Prefix) {
	for at := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParsePrefix(at))
	}
	return out
}
