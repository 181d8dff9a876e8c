package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpClosedWhenPolicyChanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-closed-when-policy-changes", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "After a change to externalTrafficPolicy=Cluster nobody says 200 at the healthCheckNodePort any more, and after one back to Local with the same number it is there again; with another one it is there alone.",
		Promises: []promise.Promise{promise.HealthCheckNodePortOnly, promise.Synchronized},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Serial:   true, // others may be given the health check port that it gives back
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			at, number := svc.HealthPort(s.Nodes[0]), svc.Object().Spec.HealthCheckNodePort
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			})
			s.ExpectNoCheck(s.Outside(), at)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[0].A))
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, number
			})
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			for _, policy := range []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal} {
				svc.Update(func(o *corev1.Service) {
					o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = policy, 0
				})
			}
			if svc.Object().Spec.HealthCheckNodePort == number {
				s.Inconclusive("the API gave the port %d again", number)
			}
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectNoCheck(s.Outside(), at)
		},
	}
}
