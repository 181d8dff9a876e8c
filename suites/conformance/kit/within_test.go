package kit

import (
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A client at the address of a node is not outside, whichever of its addresses that is.
func TestWithin(t *testing.T) {
	node := func(name string, addrs ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, a := range append(addrs, name) {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Address: a})
		}
		return n
	}
	nodes := []corev1.Node{node("a", "192.0.2.1"), node("b", "192.0.2.2", "2001:db8::2")}
	for own, want := range map[string]string{"192.0.2.9/24": "", "192.0.2.1/24": "a", "2001:db8::2/64": "b"} {
		ip, prefix, err := net.ParseCIDR(own)
		if err != nil {
			t.Fatal(err)
		}
		if got := within(nodes, []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: ip, Mask: prefix.Mask}}); got != want {
			t.Errorf("at %s: within %q, want %q", own, got, want)
		}
	}
}
