package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnp200ForEveryKind() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-200-for-every-kind", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "The healthCheckNodePort of a Service for UDP and TCP answers 200 at each node with an endpoint, of every kind, in whichever slice and of whichever port it is, with conditions or without, and 503 where there is none, or none any more.",
		Promises: []promise.Promise{promise.HealthCheckNodePort, promise.Slices, promise.AnyBackend},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Both)
			answer := func(statuses ...int) {
				for i, status := range statuses {
					s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[i]), "/", kit.Status(status))
				}
			}
			svc.AllKinds(kit.Endpoint.Bare)
			answer(200, 200, 200, 503)
			svc.DeleteSlice("port")
			answer(200, 503, 200, 503)
			svc.SliceAt("host", kit.HostPort, s.Nodes[3].Ready())
			answer(200, 503, 503, 200)
			svc.Slice("a", []discoveryv1.EndpointPort{kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort)}, s.Nodes[1].A.Ready())
			answer(503, 200, 503, 200)
		},
	}
}
