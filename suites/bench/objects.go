//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline/plumbline/fixtures/api"
)

// endpoints of each Service but the switched one, which has one.
const endpoints = 10

// switched is the number of the Service whose only endpoint is replaced.
const switched = 0

const namespace = "default"

func nth(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(n))))
}

// vip is the ClusterIP of a Service.
func vip(i int) netip.Addr { return nth(netip.MustParseAddr("10.96.0.10"), i) }

// pod is an address of a Service's endpoints. Generations tell those apart that
// follow each other in one place.
func pod(i, j, generation int) netip.Addr {
	return nth(netip.MustParseAddr("10.128.0.1"), (i*endpoints+j)*2+generation%2)
}

func ptr[T any](v T) *T { return &v }

// nodePorts is how many Services are of type NodePort: those from 1 on.
const nodePorts = 500

// nodePort is a Service's node port, 0 for none.
func nodePort(i int) uint16 {
	if i == switched || i > nodePorts {
		return 0
	}
	return 30000 + uint16(i)
}

// withNodePort is the number of some Service that has one.
func withNodePort(r *rand.Rand, services int) int { return 1 + r.IntN(min(services-1, nodePorts)) }

func service(i int) *corev1.Service {
	out := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("svc-%d", i)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: vip(i).String(), ClusterIPs: []string{vip(i).String()},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: int32(servicePort)}},
		},
	}
	if p := nodePort(i); p != 0 {
		out.Spec.Type, out.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(p)
	}
	return out
}

// slice is the EndpointSlice of a Service; the first endpoint is of a generation.
func slice(i, generation int) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("svc-%d-abcde", i),
			Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprintf("svc-%d", i)},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(podPort))}},
	}
	n := endpoints
	if i == switched {
		n = 1
	}
	for j := range n {
		g := 0
		if j == 0 {
			g = generation
		}
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod(i, j, g).String()}, NodeName: ptr("elsewhere"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(true), Terminating: ptr(false)},
		})
	}
	return out
}

// next is a Service's slice with its first endpoint replaced.
func (w *world) next(i int) *discoveryv1.EndpointSlice {
	w.generation[i]++
	return slice(i, w.generation[i])
}

func node() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Spec:       corev1.NodeSpec{PodCIDR: "10.255.0.0/24", PodCIDRs: []string{"10.255.0.0/24"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddr.String()}}},
	}
}

// grow brings the API to n Services.
func (w *world) grow(n int) error {
	if err := w.api.Apply(node()); err != nil {
		return fmt.Errorf("load objects: %w", err)
	}
	var batch []api.Object
	for i := w.api.Len(api.Services); i < n; i++ {
		batch = append(batch, service(i), slice(i, 0))
	}
	if err := w.api.Apply(batch...); err != nil {
		return fmt.Errorf("load objects: %w", err)
	}
	return nil
}
