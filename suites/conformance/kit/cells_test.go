package kit

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// charted is a Spec of two nodes, with pods, and a Service of every kind of address.
func charted() (*Spec, *Service) {
	addr := func(a string) map[corev1.IPFamily]netip.Addr { return families([]netip.Addr{netip.MustParseAddr(a)}) }
	node := func(name, at, a, b string) *Node {
		n := &Node{Name: name, Client: Client{Name: name, addrs: addr(at)}}
		n.A, n.B = &Pod{Client{Name: name + "-a", addrs: addr(a)}, n}, &Pod{Client{Name: name + "-b", addrs: addr(b)}, n}
		return n
	}
	e := &Env{nodes: []*Node{node("one", "192.0.2.1", "10.0.1.1", "10.0.1.2"), node("two", "192.0.2.2", "10.0.2.1", "10.0.2.2")}}
	s := &Spec{Family: corev1.IPv4Protocol, Nodes: e.nodes, env: e, cells: map[cell.Cell]bool{}}
	o := &corev1.Service{}
	o.Spec.ClusterIPs, o.Spec.ExternalIPs = []string{"10.96.0.1"}, []string{"198.51.100.1"}
	o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}}
	o.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}
	v := &Service{spec: s, obj: o}
	s.services = []*Service{v}
	return s, v
}

// An attempt is in the cell of its Service's address, policy and endpoints, as they are written
// when it is made, and of where its client is.
func TestCellsOfAttempts(t *testing.T) {
	s, v := charted()
	one, two := s.Nodes[0], s.Nodes[1]
	outside := Client{Name: Outside}
	write := func(port int32, eps ...Endpoint) {
		v.wrote("a", &written{family: s.Family, endpoints: eps, ports: map[string]int32{"http": port}})
	}
	at := func(a string) Target { return Target{remote.TCP, netip.MustParseAddrPort(a)} }
	local := func(o *corev1.Service) { ExternalLocal(o); InternalLocal(o) }
	cluster := func(o *corev1.Service) { o.Spec.ExternalTrafficPolicy, o.Spec.InternalTrafficPolicy = "", nil }
	for name, tc := range map[string]struct {
		policy func(*corev1.Service)
		port   int32
		eps    []Endpoint
		from   Client
		to     Target
		want   string // "": none
	}{
		"from beside":      {cluster, PodPort, []Endpoint{one.A.Ready()}, one.B.Client, at("10.96.0.1:80"), "ClusterIP, policy Cluster, endpoints all ready, from pod beside an endpoint, IPv4, to pod"},
		"from elsewhere":   {cluster, OtherPort, []Endpoint{one.A.Ready()}, two.B.Client, at("198.51.100.1:80"), "external IP, policy Cluster, endpoints all ready, from pod elsewhere, IPv4, to pod at a port of its own"},
		"to a host":        {cluster, HostPort, []Endpoint{one.Ready()}, two.Client, at("198.51.100.2:80"), "load balancer address, policy Cluster, endpoints all ready, from node itself, IPv4, to host network"},
		"none here":        {local, PodPort, []Endpoint{one.A.Ready()}, outside, at("192.0.2.2:30080"), "node port, none there, policy Local, endpoints none here, from outside, IPv4, to pod"},
		"of the node":      {local, PodPort, []Endpoint{one.A.Draining(), two.A.Ready()}, outside, at("192.0.2.1:30080"), "node port, endpoint there, policy Local, endpoints terminating only, from outside, IPv4, to pod"},
		"inside, by a VIP": {local, PodPort, []Endpoint{one.A.Draining(), two.A.Ready()}, one.B.Client, at("198.51.100.2:80"), "load balancer address, policy Local, endpoints some terminating, from pod beside an endpoint, IPv4, to pod"},
		"from beyond":      {local, PodPort, []Endpoint{two.A.NotReady(), two.B.Ready()}, Client{Name: Outside, router: two}, at("198.51.100.2:80"), "load balancer address, policy Local, endpoints some not ready, from outside, IPv4, to pod"},
		"nobody":           {cluster, PodPort, nil, two.Client, at("10.96.0.1:80"), "ClusterIP, policy Cluster, endpoints none, from node itself, IPv4, to pod"},
		"none that serves": {cluster, PodPort, []Endpoint{one.A.Ending(), one.B.NotReady()}, two.Client, at("10.96.0.1:80"), "ClusterIP, policy Cluster, endpoints none usable, from node itself, IPv4, to pod"},
		"another port":     {cluster, PodPort, nil, two.Client, at("10.96.0.1:81"), ""},
		"another address":  {cluster, PodPort, nil, two.Client, at("10.96.0.2:80"), ""},
	} {
		tc.policy(v.obj)
		write(tc.port, tc.eps...)
		s.asks(tc.from, tc.to)
		if tc.want != "" {
			tc.want = "TCP, " + tc.want
		}
		if got := s.where(); got != tc.want {
			t.Errorf("%s: %s\nwant %s", name, got, tc.want)
		}
	}
	write(PodPort, one.A.Ready(), one.Ready())
	s.asks(two.Client, at("10.96.0.1:80"))
	if kinds := strings.Count(s.where(), "; or "); kinds != 1 {
		t.Errorf("of two kinds of endpoints: %s", s.where())
	}
	local(v.obj)
	write(PodPort, one.A.Ready(), one.Ready().Unready())
	v.wrote("host", &written{family: s.Family, endpoints: []Endpoint{two.Ready()}, ports: map[string]int32{"http": HostPort}})
	for n, kind := range map[*Node]string{one: "to pod", two: "to host network"} {
		if s.asks(outside, TCP(netip.AddrPortFrom(n.Addr(s.Family), 30080))); !strings.HasSuffix(s.where(), kind) || strings.Contains(s.where(), "; or ") {
			t.Errorf("of two kinds, under policy Local at node %s: %s, want %s alone", n.Name, s.where(), kind)
		}
	}
	v.deleted = true
	s.asks(two.Client, at("10.96.0.1:80"))
	if got := s.where(); got != "" {
		t.Errorf("of a Service that is gone: %s", got)
	}
	if len(s.cells) < 10 {
		t.Errorf("%d cells are noted", len(s.cells))
	}
}
