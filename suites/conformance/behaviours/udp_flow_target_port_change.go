package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowTargetPortChange() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-target-port-change", Level: kit.Must, Profile: kit.ProfileUDP,
		Says:     "A UDP flow follows a change of the port of the endpoints, without a new source port.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.AnyTargetPort},
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Upstream: "[sig-network] Conntrack should be able to cleanup conntrack entries when UDP service target port changes for a NodePort service",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			pod, client, to := s.Nodes[0].A, s.Nodes[1].B.Client, kit.UDP(svc.ClusterIP("dns"))
			svc.Endpoints(pod.Ready())
			s.Expect(client, to, kit.Pods(pod))
			flows := s.Datagrams(client, to, 8)
			flows.ReachPort(kit.PodPort, pod.Client)
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, kit.OtherPort)}, pod.Ready())
			flows.ReachPort(kit.OtherPort, pod.Client)
		},
	}
}
