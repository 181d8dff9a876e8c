package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// A health check's port is opened or closed with the Service that has it; one that passes to
// another Service is neither.
func TestDiffOfHealthPorts(t *testing.T) {
	with := func(ports map[string]uint16) *Plan {
		p := &Plan{Services: map[objects.Name]Service{{Name: "without"}: {}}}
		for name, port := range ports {
			p.Services[objects.Name{Name: name}] = Service{HealthCheck: &HealthCheck{Port: port}}
		}
		return p
	}
	for _, c := range []struct {
		name           string
		old, new       *Plan
		opened, closed []uint16
	}{
		{"nothing", with(nil), with(nil), nil, nil},
		{"a start", nil, with(map[string]uint16{"a": 3, "b": 1}), []uint16{1, 3}, nil},
		{"the same", with(map[string]uint16{"a": 3}), with(map[string]uint16{"a": 3}), nil, nil},
		{"another port", with(map[string]uint16{"a": 3, "b": 5}), with(map[string]uint16{"a": 4, "b": 5}), []uint16{4}, []uint16{3}},
		{"another Service", with(map[string]uint16{"a": 3}), with(map[string]uint16{"b": 3}), nil, nil},
		{"one of two goes", with(map[string]uint16{"a": 3, "b": 3}), with(map[string]uint16{"b": 3}), nil, []uint16{3}},
		{"all go", with(map[string]uint16{"a": 3, "b": 1}), with(nil), nil, []uint16{1, 3}},
	} {
		if d := Diff(c.old, c.new); !slices.Equal(d.Opened, c.opened) || !slices.Equal(d.Closed, c.closed) {
			t.Errorf("%s: opened %v, closed %v; want %v, %v", c.name, d.Opened, d.Closed, c.opened, c.closed)
		}
	}
}

// A health check counts the addresses of ready endpoints here, each once, however many ports it has.
func TestHealthCheckCounts(t *testing.T) {
	svc := objects.Service{
		Type: objects.LoadBalancer, External: objects.Local, HealthCheckNodePort: 31000, ClusterIPs: []netip.Addr{key(0).Addr, netip.MustParseAddr("fd00::1")},
		Ports: []objects.ServicePort{{Name: "a", Protocol: objects.TCP, Port: 80}, {Name: "b", Protocol: objects.TCP, Port: 81}},
	}
	ports := []objects.SlicePort{{Name: "a", Protocol: objects.TCP, Port: 8080}, {Name: "b", Protocol: objects.TCP, Port: 8081}}
	six := netip.MustParseAddr("fd00:1::1")
	s := built(t, Options{Node: "here"}, svc,
		objects.EndpointSlice{Ports: ports, Endpoints: []objects.Endpoint{
			{Addr: pod, Node: "here", Ready: true}, {Addr: pod.Next(), Node: "here", Serving: true, Terminating: true}, {Addr: pod.Next().Next(), Node: "there", Ready: true},
		}},
		objects.EndpointSlice{Ports: ports, Endpoints: []objects.Endpoint{{Addr: six, Node: "here", Ready: true}, {Addr: six.Next(), Node: "here", Ready: true}}})
	if want := (HealthCheck{Port: 31000, IPv4: 1, IPv6: 2}); s.HealthCheck == nil || *s.HealthCheck != want {
		t.Errorf("%+v, want %+v", s.HealthCheck, want)
	}
}

// Ports without an endpoint here while there are some elsewhere, by family: internal ones are
// those of ClusterIPs, external ones count once for all addresses of a port.
func TestNoLocal(t *testing.T) {
	six := Key{IPv6: true, Addr: netip.MustParseAddr("fd00::1"), Protocol: objects.TCP, Port: 80}
	elsewhere, none := &Route{Action: Forward, Endpoints: eps("a")}, Route{Action: Drop}
	for what, c := range map[string]struct {
		frontends []Frontend
		want      NoLocal
	}{
		"internal":           {[]Frontend{{Key: key(80), Kind: ClusterIP, Outside: none}}, NoLocal{Internal: [2]int{1, 0}}},
		"internal, IPv6":     {[]Frontend{{Key: six, Kind: ClusterIP, Outside: none}}, NoLocal{Internal: [2]int{0, 1}}},
		"refused":            {[]Frontend{{Key: key(80), Kind: ClusterIP, Outside: Route{Action: Reject}}}, NoLocal{}},
		"external":           {[]Frontend{{Key: key(80), Kind: LoadBalancer, Group: key(80), Outside: none, Inside: elsewhere}, {Key: key(81), Kind: NodePort, Group: key(80), Outside: none, Inside: elsewhere}}, NoLocal{External: [2]int{1, 0}}},
		"two, IPv6":          {[]Frontend{{Key: six, Kind: NodePort, Group: six, Outside: none, Inside: elsewhere}, {Key: six, Kind: NodePort, Group: key(80), Outside: none, Inside: elsewhere}}, NoLocal{External: [2]int{0, 2}}},
		"external, but here": {[]Frontend{{Key: key(80), Kind: LoadBalancer, Group: key(80), Outside: *elsewhere, Inside: elsewhere}}, NoLocal{}},
		"nowhere":            {[]Frontend{{Key: key(80), Kind: LoadBalancer, Group: key(80), Outside: Route{Action: Reject}, Inside: &Route{Action: Reject}}}, NoLocal{}},
		"an external drop":   {[]Frontend{{Key: key(80), Kind: LoadBalancer, Group: key(80), Outside: none}}, NoLocal{}},
	} {
		if got := (Service{Frontends: c.frontends}).NoLocal(); got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}
