package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// apart gives the ports of a Service, for TCP and UDP (kit.Both), an endpoint each that is none of the other's.
func apart(svc *kit.Service, tcp, udp kit.Endpoint) {
	svc.Slice("tcp", []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort)}, tcp)
	svc.Slice("udp", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort)}, udp)
}

// apartLocally: under policy Local each port is answered on the node that has its own endpoint, by ways to it by TCP
// and then by UDP, and not where the other's is.
func apartLocally(s *kit.Spec, svc *kit.Service, ways func(*kit.Node) []kit.Way, none kit.Want) {
	n := s.Nodes[:2]
	apart(svc, n[0].A.Ready(), n[1].A.Ready())
	for i := range n {
		for j, way := range ways(n[i]) {
			want := none
			if i == j {
				want = kit.Pods(n[i].A)
			}
			s.Expect(way.From, way.To, want)
		}
	}
}
