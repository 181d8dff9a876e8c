package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-udp", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Datagrams of pods and nodes to a ClusterIP reach each ready endpoint, and the answers come back.",
		Promises: []promise.Promise{promise.ClusterIP, promise.UDP},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: udp",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			want := svc.Kinds()
			s.Each(svc.Ways(s.Inside()...), want)
		},
	}
}
