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

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/api"
)

// endpoints of each Service but the switched one, which has one.
const endpoints = 10

// switched is the number of the Service whose only endpoint is replaced.
const switched = 0

const (
	namespace = "default"
	portName  = "main"
)

func nth(base netip.Addr, n int) netip.Addr {
	b := base.As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(n))))
}

// vip is the ClusterIP of a Service.
func vip(i int) netip.Addr { return nth(netip.MustParseAddr("10.96.0.10"), i) }

// pod is the address of an endpoint that a Service begins with.
func pod(i, j int) netip.Addr { return nth(netip.MustParseAddr("10.128.0.1"), i*endpoints+j) }

// most is how many endpoints follow each other in the first place of a Service before an
// address comes back.
const most = 2048

// replaced is the address of a Service's first endpoint. Generations follow each other; those
// after the first have addresses that no other endpoint had.
func replaced(i, generation int) netip.Addr {
	if generation == 0 {
		return pod(i, 0)
	}
	return nth(netip.MustParseAddr("10.224.0.1"), i*most+generation%most)
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

// isUDP: one Service of eight is of UDP.
func isUDP(i int) bool { return i%8 == 7 }

// udpServices are the numbers of those of UDP.
func udpServices(services int) (out []int) {
	for i := range services {
		if isUDP(i) {
			out = append(out, i)
		}
	}
	return out
}

// tcp is the Service itself or, if it is of UDP, one beside it that is not.
func tcp(i int) int {
	if isUDP(i) {
		return i - 1
	}
	return i
}

// anyTCP is the number of some Service of TCP that is not the switched one.
func anyTCP(pick uint64, services int) int { return tcp(1 + int(pick%uint64(services-1))) }

// protocol of a Service's port.
func protocol(i int) corev1.Protocol {
	if isUDP(i) {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

func planProtocol(i int) objects.Protocol {
	if isUDP(i) {
		return objects.UDP
	}
	return objects.TCP
}

func service(i int) *corev1.Service {
	out := serviceOf(fmt.Sprintf("svc-%d", i), vip(i), protocol(i))
	if p := nodePort(i); p != 0 {
		out.Spec.Type, out.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(p)
	}
	return out
}

// serviceOf is a Service with one port.
func serviceOf(name string, vip netip.Addr, protocol corev1.Protocol) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: vip.String(), ClusterIPs: []string{vip.String()},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: portName, Protocol: protocol, Port: int32(servicePort)}},
		},
	}
}

// slice is the EndpointSlice of a Service; the first endpoint is of a generation.
func slice(i, generation int) *discoveryv1.EndpointSlice {
	addrs := []netip.Addr{replaced(i, generation)}
	for j := 1; j < endpoints && i != switched; j++ {
		addrs = append(addrs, pod(i, j))
	}
	return sliceOf(fmt.Sprintf("svc-%d", i), 0, protocol(i), addrs)
}

// sliceOf is the nth EndpointSlice of a Service.
func sliceOf(service string, n int, protocol corev1.Protocol, addrs []netip.Addr) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%d", service, n),
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr(portName), Protocol: ptr(protocol), Port: ptr(int32(podPort))}},
	}
	for _, a := range addrs {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.String()}, NodeName: ptr("elsewhere"),
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
