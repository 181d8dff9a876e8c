package objects

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func sameAddr(a, b netip.Addr) bool { return a == b }

func sameNetip() cmp.Option {
	return cmp.Options{cmp.Comparer(sameAddr), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })}
}

func ptr[T any](v T) *T { return &v }

// A bad field costs itself and nothing else, and is named.
func TestFromServiceKeepsTheGoodPart(t *testing.T) {
	got, err := FromService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "nonsense"},
			ExternalIPs:           []string{"2001:db8::20", "203.0.113.20"},
			Ports:                 []corev1.ServicePort{{Name: "good", Port: 80, NodePort: 30000}, {Name: "bad", Port: 0}, {Name: "odd", Port: 1, Protocol: "QUIC"}},
			ExternalTrafficPolicy: "Local", Type: corev1.ServiceTypeLoadBalancer, HealthCheckNodePort: 32000,
		},
	})
	want := Service{
		Name: Name{"ns", "svc"}, Type: LoadBalancer, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []ServicePort{{Name: "good", Protocol: TCP, Port: 80, NodePort: 30000}}, Internal: Cluster, External: Local, HealthCheckNodePort: 32000,
		ExternalIPs: []netip.Addr{netip.MustParseAddr("203.0.113.20")},
	}
	if diff := cmp.Diff(want, got, sameNetip()); diff != "" {
		t.Errorf("service (-want +got):\n%s", diff)
	}
	if err == nil {
		t.Fatal("no error for four bad fields")
	}
	for _, word := range []string{"ns/svc", "nonsense", "2001:db8::20", `"bad"`, `"odd"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not name %s", err, word)
		}
	}
}

func TestFromEndpointSlice(t *testing.T) {
	label := map[string]string{discoveryv1.LabelServiceName: "svc"}
	in := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "svc-1", Labels: label}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Port: ptr(int32(80))}, {Name: ptr("unrestricted")}, {Name: ptr("zero"), Port: ptr(int32(0))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}},
			{Addresses: []string{"10.0.0.2"}, NodeName: ptr("n"), Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}},
			{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false)}},
			{Addresses: []string{"fd00::1"}},
			{Addresses: []string{"127.0.0.1"}},
			{Addresses: []string{"169.254.169.254"}},
		},
	}
	got, ok, err := FromEndpointSlice(in)
	want := EndpointSlice{
		Name: Name{"ns", "svc-1"}, Service: Name{"ns", "svc"}, Ports: []SlicePort{{Protocol: TCP, Port: 80}},
		Endpoints: []Endpoint{
			{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true, Serving: true},
			{Addr: netip.MustParseAddr("10.0.0.2"), Node: "n", Serving: true, Terminating: true},
			{Addr: netip.MustParseAddr("10.0.0.3"), Serving: true},
		},
	}
	if diff := cmp.Diff(want, got, sameNetip()); diff != "" || !ok {
		t.Errorf("slice (-want +got), ok %t:\n%s", ok, diff)
	}
	if err != nil && strings.Contains(err.Error(), "unrestricted") {
		t.Errorf("error %v complains about a port without a number, which the API allows", err)
	}
	for _, word := range []string{`"zero"`, "fd00::1", "127.0.0.1", "169.254.169.254"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not name %s", err, word)
		}
	}
	in.AddressType = discoveryv1.AddressTypeFQDN
	if _, ok, _ := FromEndpointSlice(in); ok {
		t.Error("a slice of host names is used")
	}
}

func TestFromNode(t *testing.T) {
	got, err := FromNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", Taints: []corev1.Taint{{Key: ToBeDeletedTaint}}, Unschedulable: true},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"},
			{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::1"},
		}},
	})
	want := Node{
		Name: "n", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, Leaving: true,
	}
	if diff := cmp.Diff(want, got, sameNetip()); diff != "" || err != nil {
		t.Errorf("node (-want +got), %v:\n%s", err, diff)
	}
}

// A node leaves when it is about to be deleted, and by nothing else: not by being
// cordoned, nor by the taint that says so.
func TestNodeLeaves(t *testing.T) {
	now := metav1.Now()
	for _, c := range []struct {
		name string
		node corev1.Node
		want bool
	}{
		{"as any other", corev1.Node{}, false},
		{"cordoned", corev1.Node{Spec: corev1.NodeSpec{
			Unschedulable: true, Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}},
		}}, false},
		{"not ready", corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}}}, false},
		{"to be deleted by the autoscaler", corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: ToBeDeletedTaint}}}}, true},
		{"being deleted", corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true},
	} {
		if got, err := FromNode(&c.node); got.Leaving != c.want || err != nil {
			t.Errorf("a node %s: leaving %t, %v; want %t", c.name, got.Leaving, err, c.want)
		}
	}
}

func TestSnapshot(t *testing.T) {
	var s Snapshot
	svc := Name{"ns", "svc"}
	s.Apply(Change{Service: &Service{Name: svc}})
	none := EndpointSlice{Name: Name{"ns", "a"}, Service: svc}
	one := none
	one.Endpoints = []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true}}
	for _, c := range []struct {
		change Change
		was    EndpointSlice
		at     int
	}{{Change{Slice: &one}, none, 1}, {Change{Slice: &none}, one, 0}, {Change{Slice: &one}, none, 1}, {Change{Gone: &Gone{Kind: KindSlice, Name: one.Name, Service: svc}}, one, 0}} {
		touched := s.Apply(c.change)
		if diff := cmp.Diff(Touched{Services: []Name{svc}, Slice: &c.was}, touched, sameNetip()); diff != "" {
			t.Errorf("touched (-want +got):\n%s", diff)
		}
		if at := s.EndpointsAt(one.Endpoints[0].Addr); at != c.at {
			t.Errorf("%d endpoints at %s, want %d", at, one.Endpoints[0].Addr, c.at)
		}
	}
	s.Apply(Change{Gone: &Gone{Kind: KindService, Name: svc}})
	if len(s.Services)+len(s.Slices) != 0 {
		t.Errorf("something is left: %+v", s)
	}
	n := Node{Name: "n", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	s.Apply(Change{Node: &n})
	if touched := s.Apply(Change{Gone: &Gone{Kind: KindNode}}); !touched.Node || touched.All || !s.Node.Leaving || len(s.Node.InternalIPs) != 1 || n.Leaving {
		t.Errorf("a deleted node is %+v; want it leaving, with its addresses, and the caller's untouched", s.Node)
	}
}

// A Node that is registered anew, without addresses yet, keeps those it had.
func TestNodeWithoutAddresses(t *testing.T) {
	var s Snapshot
	n := Node{Name: "n", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}
	s.Apply(Change{Node: &n})
	if touched := s.Apply(Change{Node: &Node{Name: "n"}}); touched.All || len(s.Node.InternalIPs) != 1 || len(s.Node.PodCIDRs) != 1 {
		t.Errorf("touched %+v, node %+v; want the old addresses", touched, s.Node)
	}
}

// An endpoint at an address of the node's interfaces is touched when that comes
// or goes, and no other.
func TestLocalAddresses(t *testing.T) {
	var s Snapshot
	a := netip.MustParseAddr("192.0.2.7")
	for i, at := range []netip.Addr{a, netip.MustParseAddr("10.0.0.1")} {
		svc := Name{"ns", string(rune('a' + i))}
		s.Apply(Change{Slice: &EndpointSlice{Name: svc, Service: svc, Endpoints: []Endpoint{{Addr: at}}}})
	}
	for _, local := range []LocalAddrs{{a}, {}} {
		if touched := s.Apply(Change{Local: &local}); touched.All || len(touched.Services) != 1 || touched.Services[0].Name != "a" {
			t.Errorf("with %v: touched %+v", local, touched)
		}
	}
}

func TestDecodeUnusable(t *testing.T) {
	snap, err := Decode([]byte("kind: Service\nmetadata: {name: a, namespace: ns}\nspec: {clusterIP: 127.0.0.1}\n---\nkind: Service\nmetadata: {name: b, namespace: ns}\n"))
	var u *Unusable
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "service ns/a: cluster IP") || snap == nil || len(snap.Services) != 2 {
		t.Errorf("%v, %v; want both Services and what is unusable of one", snap, err)
	}
}

func TestMappedRange(t *testing.T) {
	got, err := FromService(&corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerSourceRanges: []string{"::ffff:10.0.0.0/104"}}})
	if err == nil || !got.BadRanges || len(got.SourceRanges) != 0 {
		t.Errorf("%+v, %v; want the range refused and the Service closed", got, err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, text := range []string{"kind: Pod", "kind: Service\nspec: {prots: []}", "kind: [", "kind: Service\nspec: {clusterIP: x}"} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
