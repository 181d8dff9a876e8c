package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceProxyNameIgnored() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-proxy-name-ignored", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A Service with the label of another proxy is not served: not at its ClusterIP, its node ports, the address of its load balancer and its external IP, and its healthCheckNodePort tells of no endpoint.",
		Promises: []promise.Promise{promise.OtherProxy},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureProxyName},
		Upstream: "[sig-network] Services should implement service.kubernetes.io/service-proxy-name",
		Run: func(s *kit.Spec) {
			labelled, addrs := atAll(s, kit.ExternalLocal, ofAnotherProxy)
			labelled.Endpoints(s.Nodes[1].A.Ready())
			after := s.Service(kit.NodePorts)
			after.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(after.ClusterIP()), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Outside(), kit.TCP(after.NodePort(s.Nodes[1])), kit.Pods(s.Nodes[1].A))
			s.Each(waysBy(s, s.Nodes[1], labelled, addrs), kit.Unreachable())
			s.Each(labelled.Ways(s.Nodes[0].A.Client, s.Nodes[1].Client), kit.Unreachable())
			s.ExpectNoCheck(s.Outside(), labelled.HealthPort(s.Nodes[1]))
		},
	}
}

// ofAnotherProxy labels a Service as one that another proxy serves.
func ofAnotherProxy(o *corev1.Service) {
	o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
}
