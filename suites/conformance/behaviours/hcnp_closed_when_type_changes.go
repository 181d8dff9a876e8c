package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hcnpClosedWhenTypeChanges() kit.Behaviour {
	return kit.Behaviour{
		ID: "hcnp-closed-when-type-changes", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "Where a Service that is no LoadBalancer any more had its healthCheckNodePort nobody says 200, also under externalTrafficPolicy=Local; and when it becomes one again its new one says where it has endpoints.",
		Promises: []promise.Promise{promise.HealthCheckNodePortOnly, promise.HealthCheckNodePort, promise.Synchronized},
		Writes:   kit.SinceClass,
		Serial:   true, // others may be given the health check port that it gives back
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			at := svc.HealthPort(s.Nodes[0])
			s.ExpectHTTP(s.Outside(), at, "/", kit.Status(200))
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.LoadBalancerClass = corev1.ServiceTypeNodePort, nil
				o.Spec.AllocateLoadBalancerNodePorts, o.Spec.HealthCheckNodePort = nil, 0
			})
			s.ExpectNoCheck(s.Outside(), at)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[0].A))
			svc.Update(kit.LoadBalanced)
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
		},
	}
}
