package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpClosedRefuses() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-closed-refuses", Level: kit.Should, Profile: kit.ProfileHealth,
		Says:     "A healthCheckNodePort that a Service has no more, for its policy, its type or its end, refuses connections on every node.",
		Promises: []promise.Promise{promise.HealthPortForm},
		Writes:   kit.SinceClass,
		Serial:   true, // others may be given the health check port that it gives back
		Run: func(s *kit.Spec) {
			gone := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			gone.Endpoints(s.Nodes[0].A.Ready())
			s.ExpectHTTP(s.Outside(), gone.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), gone.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			gone.Delete()
			s.ExpectClosed(s.Outside(), gone.HealthPort(s.Nodes[0]))
			s.ExpectClosed(s.Outside(), gone.HealthPort(s.Nodes[1]))
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			at, number := svc.HealthPort(s.Nodes[0]), svc.Object().Spec.HealthCheckNodePort
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
			})
			s.ExpectClosed(s.Outside(), at)
			svc.Update(func(o *corev1.Service) {
				o.Spec.ExternalTrafficPolicy, o.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, number
			})
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.LoadBalancerClass = corev1.ServiceTypeNodePort, nil
				o.Spec.AllocateLoadBalancerNodePorts, o.Spec.HealthCheckNodePort = nil, 0
			})
			s.ExpectClosed(s.Outside(), at)
		},
	}
}
