package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpOnlyForLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-only-for-local", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "Under externalTrafficPolicy=Cluster a Service has no health check of its own: nobody says 200 where it would be; and a port that goes from one Service to another at once tells of the endpoints of this one.",
		Promises: []promise.Promise{promise.HealthCheckNodePortOnly, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Serial:   true, // others may be given the health check port that it gives back
		Run: func(s *kit.Spec) {
			first := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			first.Endpoints(s.Nodes[0].A.Ready())
			at, number := first.HealthPort(s.Nodes[0]), first.Object().Spec.HealthCheckNodePort
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200)) // what stays open would go on to say so
			first.Delete()
			svc := s.Service(kit.LoadBalanced)
			svc.Endpoints(s.Nodes[0].A.Ready())
			if got := svc.Object().Spec.HealthCheckNodePort; got != 0 {
				s.Inconclusive("the API gave a Service under policy Cluster healthCheckNodePort %d", got)
			}
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[0].A))
			s.ExpectNoCheck(s.Outside(), at)
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, number
			})
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			})
			next := s.Service(kit.LoadBalanced, kit.ExternalLocal, func(o *corev1.Service) { o.Spec.HealthCheckNodePort = number })
			next.Endpoints(s.Nodes[1].A.Ready())
			s.ExpectHTTP(s.Outside(), next.HealthPort(s.Nodes[1]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(503))
		},
	}
}
