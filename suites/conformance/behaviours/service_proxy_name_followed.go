package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceProxyNameFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-proxy-name-followed", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A Service that gets the label of another proxy is served no more, and when it loses the label it is served again.",
		Promises: []promise.Promise{promise.OtherProxy},
		Features: []kit.Feature{kit.FeatureProxyName},
		Upstream: "[sig-network] Services should implement service.kubernetes.io/service-proxy-name",
		Run: func(s *kit.Spec) {
			svc, client := s.Service(), s.Nodes[0].A.Client
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			svc.Update(func(o *corev1.Service) {
				o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
			})
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Unreachable())
			svc.Update(func(o *corev1.Service) { o.Labels = nil })
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
		},
	}
}
