package lbplan

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addresses of netip have unexported fields but compare with ==.
var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func service(mutate ...func(*v1.Service)) *v1.Service {
	svc := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"},
		Spec: v1.ServiceSpec{
			Type:       v1.ServiceTypeLoadBalancer,
			IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
			Ports:      []v1.ServicePort{{Name: "http", Port: 80, NodePort: 30080, Protocol: v1.ProtocolTCP}},
		},
	}
	for _, m := range mutate {
		m(svc)
	}
	return svc
}

func node(name string, addrs ...string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addrs {
		n.Status.Addresses = append(n.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
	}
	return n
}

func server(node, addr string) Server { return Server{Node: node, Addr: netip.MustParseAddrPort(addr)} }

func TestBuild(t *testing.T) {
	one := func(mutate func(*LB)) LB {
		lb := LB{
			Service: "shop/web", Families: []Family{V4}, Ports: []uint16{80}, Check: Check{Port: 10256, Path: "/healthz"},
			Listeners: []Listener{{Port: 80, Family: V4, Servers: []Server{server("n1", "10.0.0.1:30080"), server("n2", "10.0.0.2:30080")}}},
		}
		mutate(&lb)
		return lb
	}
	nodes := []*v1.Node{node("n2", "fd00::2", "10.0.0.2"), node("n1", "10.0.0.1", "10.9.9.9", "fd00::1")}
	for _, c := range []struct {
		name string
		svc  func(*v1.Service)
		want LB
	}{
		{"eTP Cluster asks the node proxy", func(*v1.Service) {}, one(func(*LB) {})},
		{"no protocol means TCP", func(s *v1.Service) { s.Spec.Ports[0].Protocol = "" }, one(func(*LB) {})},
		{"eTP Local asks the healthCheckNodePort", func(s *v1.Service) {
			s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
			s.Spec.HealthCheckNodePort = 32000
		}, one(func(lb *LB) { lb.Check.Port = 32000 })},
		{"dual stack: each family by its own addresses", func(s *v1.Service) {
			s.Spec.IPFamilies = []v1.IPFamily{v1.IPv6Protocol, v1.IPv4Protocol}
		}, one(func(lb *LB) {
			lb.Families = []Family{V6, V4}
			lb.Listeners = []Listener{
				{Port: 80, Family: V6, Servers: []Server{server("n1", "[fd00::1]:30080"), server("n2", "[fd00::2]:30080")}},
				lb.Listeners[0],
			}
		})},
		{"source ranges are trimmed, masked, sorted", func(s *v1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{" 192.0.2.7/24 ", "10.0.0.0/8", "192.0.2.0/24", "fd00::/8"}
		}, one(func(lb *LB) {
			lb.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00::/8")}
		})},
		{"source ranges by annotation", func(s *v1.Service) {
			s.Annotations = map[string]string{v1.AnnotationLoadBalancerSourceRangesKey: "10.0.0.0/8, 192.0.2.0/24"}
		}, one(func(lb *LB) {
			lb.Sources = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
		})},
		{"affinity has the API's default", func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP },
			one(func(lb *LB) { lb.Affinity = 3 * time.Hour })},
		{"affinity for a time", func(s *v1.Service) {
			s.Spec.SessionAffinity = v1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &v1.SessionAffinityConfig{ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
		}, one(func(lb *LB) { lb.Affinity = time.Minute })},
		{"a pinned address", func(s *v1.Service) { s.Spec.LoadBalancerIP = "10.0.0.200" },
			one(func(lb *LB) { lb.Pinned = netip.MustParseAddr("10.0.0.200") })},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Build(service(c.svc), nodes)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, byValue); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			slices.Reverse(nodes)
			again, err := Build(service(c.svc), nodes)
			if d := cmp.Diff(got, again, byValue); d != "" || err != nil {
				t.Errorf("the order of nodes matters: %v\n%s", err, d)
			}
		})
	}
}

func TestBuildLeavesOutNodesWithoutTheFamily(t *testing.T) {
	lb, err := Build(service(), []*v1.Node{node("n1", "10.0.0.1"), node("n6", "fd00::6"), node("n0")})
	if err != nil {
		t.Fatal(err)
	}
	if got := lb.Listeners[0].Servers; len(got) != 1 || got[0].Node != "n1" {
		t.Errorf("servers %v, want n1 alone", got)
	}
}

func TestBuildRefuses(t *testing.T) {
	second := func(p v1.ServicePort) func(*v1.Service) {
		return func(s *v1.Service) { s.Spec.Ports = append(s.Spec.Ports, p) }
	}
	for _, c := range []struct {
		name string
		svc  func(*v1.Service)
		want string
	}{
		{"UDP", func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolUDP }, "port 80/UDP: this load balancer forwards TCP only"},
		{"UDP beside TCP", second(v1.ServicePort{Port: 53, NodePort: 30053, Protocol: v1.ProtocolUDP}), "no port of the Service is served"},
		{"SCTP", second(v1.ServicePort{Port: 99, NodePort: 30099, Protocol: v1.ProtocolSCTP}), "port 99/SCTP"},
		{"no nodePort", func(s *v1.Service) { s.Spec.Ports[0].NodePort = 0 }, "allocateLoadBalancerNodePorts"},
		{"no ports", func(s *v1.Service) { s.Spec.Ports = nil }, "0 ports"},
		{"too many ports", func(s *v1.Service) {
			for p := range int32(MaxPorts) {
				second(v1.ServicePort{Port: 1000 + p, NodePort: 30100 + p})(s)
			}
		}, "65 ports"},
		{"the same port twice", second(v1.ServicePort{Port: 80, NodePort: 30081}), "listed twice"},
		{"Local without its check port", func(s *v1.Service) { s.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal }, "healthCheckNodePort"},
		{"a range that is none", func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "10.0.0.0"} }, `"10.0.0.0" is not a network`},
		{"a range with a newline in it", func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8\nlisten x"} }, "not a network"},
		{"an IPv4 range in IPv6 clothes", func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"::ffff:10.0.0.0/104"} }, "not a network"},
		{"pinned to a family the Service has not", func(s *v1.Service) { s.Spec.LoadBalancerIP = "fd00::1" }, "no such IP family"},
		{"pinned to no address", func(s *v1.Service) { s.Spec.LoadBalancerIP = "lb.example" }, "not an IP address"},
		{"no family", func(s *v1.Service) { s.Spec.IPFamilies = nil }, "ipFamilies"},
		{"an unknown affinity", func(s *v1.Service) { s.Spec.SessionAffinity = "Cookie" }, "Cookie"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lb, err := Build(service(c.svc), []*v1.Node{node("n1", "10.0.0.1")})
			if !errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want a refusal with %q", err, c.want)
			}
			if len(lb.Listeners) != 0 {
				t.Errorf("a refused Service has listeners: %v", lb.Listeners)
			}
		})
	}
}

func TestChooseAddress(t *testing.T) {
	a := netip.MustParseAddr
	rng := netip.MustParsePrefix("10.0.0.8/29") // usable: .9 to .14
	full := map[netip.Addr]string{}
	for i := 9; i <= 14; i++ {
		full[netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})] = "somebody"
	}
	for _, c := range []struct {
		name  string
		req   AddressRequest
		rng   netip.Prefix
		taken map[netip.Addr]string
		want  string // address, or a part of the refusal
	}{
		{"recorded wins", AddressRequest{Recorded: a("10.0.0.10"), Published: a("10.0.0.11")}, rng, nil, "10.0.0.10"},
		{"published is next", AddressRequest{Recorded: a("10.0.1.1"), Published: a("10.0.0.11")}, rng, nil, "10.0.0.11"},
		{"pinned wins over recorded", AddressRequest{Pinned: a("10.0.0.12"), Recorded: a("10.0.0.10")}, rng, nil, "10.0.0.12"},
		{"pinned outside", AddressRequest{Pinned: a("10.0.1.12")}, rng, nil, "not within the load-balancer range 10.0.0.8/29"},
		{"pinned to the network address", AddressRequest{Pinned: a("10.0.0.8")}, rng, nil, "not within"},
		{"pinned to the broadcast address", AddressRequest{Pinned: a("10.0.0.15")}, rng, nil, "not within"},
		{"pinned and taken", AddressRequest{Pinned: a("10.0.0.12")}, rng, full, "10.0.0.12 is taken by somebody"},
		{"recorded but taken", AddressRequest{Recorded: a("10.0.0.10")}, rng, map[netip.Addr]string{a("10.0.0.10"): "x"}, "10.0.0.13"},
		{"all taken", AddressRequest{}, rng, full, "no free address"},
		{"IPv6 without end", AddressRequest{Key: "c/shop/web"}, netip.MustParsePrefix("fd00:1::/64"), nil, "fd00:1::617a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ChooseAddress(c.req, c.rng, c.taken)
			if err != nil {
				if !errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want a refusal with %q", err, c.want)
				}
				return
			}
			if got.String() != c.want {
				t.Errorf("address %s, want %s", got, c.want)
			}
		})
	}
}

// Services never share an address, and the same Service comes back to its own
// when it is made anew.
func TestChooseAddressIsStableAndApart(t *testing.T) {
	rng := netip.MustParsePrefix("10.0.0.0/28")
	taken := map[netip.Addr]string{}
	first := map[string]netip.Addr{}
	for _, key := range strings.Split("abcdefghijklmn", "") { // 14 of 14 usable
		got, err := ChooseAddress(AddressRequest{Key: key}, rng, taken)
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if who, ok := taken[got]; ok {
			t.Fatalf("%s got %s of %s", key, got, who)
		}
		taken[got], first[key] = key, got
	}
	delete(taken, first["f"])
	if got, err := ChooseAddress(AddressRequest{Key: "f"}, rng, taken); err != nil || got != first["f"] {
		t.Errorf("f came back to %s (%v), want %s", got, err, first["f"])
	}
}
