package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceProxyNameIgnored() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-proxy-name-ignored", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A Service with the label of another proxy is not served, not at its ClusterIP and not at its node port.",
		Promises: []promise.Promise{promise.OtherProxy},
		Features: []kit.Feature{kit.FeatureProxyName},
		Upstream: "[sig-network] Services should implement service.kubernetes.io/service-proxy-name",
		Run: func(s *kit.Spec) {
			labelled := s.Service(kit.NodePorts, func(o *corev1.Service) {
				o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
			})
			labelled.Endpoints(s.Nodes[1].A.Ready())
			after := s.Service(kit.NodePorts)
			after.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(after.ClusterIP()), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Outside(), kit.TCP(after.NodePort(s.Nodes[0])), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(labelled.ClusterIP()), kit.Unreachable())
			s.Expect(s.Outside(), kit.TCP(labelled.NodePort(s.Nodes[0])), kit.Unreachable())
		},
	}
}
