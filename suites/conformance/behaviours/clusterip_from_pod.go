package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-from-pod", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A pod's connections and datagrams to a ClusterIP reach each ready endpoint of every kind, and no other, from every node.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported, promise.ReadyEndpointsInside, promise.TCP, promise.AnyBackend, promise.NamedPorts},
		Upstream: "[sig-network] Networking Granular Checks: Services should function for pod-Service: http",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Both)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				s.Each(svc.Ways(s.PodClients()...), want)
			}
		},
	}
}
