package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceProxyNameFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-proxy-name-followed", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A Service that gets the label of another proxy is served no more, and when it loses the label it is served again, by the endpoints that it has by then; agents that start leave alone what has the label, and slices with that of headless Services.",
		Promises: []promise.Promise{promise.OtherProxy, promise.HeadlessLabel},
		Features: []kit.Feature{kit.FeatureProxyName},
		Upstream: "[sig-network] Services should implement service.kubernetes.io/service-proxy-name",
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, client := s.Service(kit.NodePorts, kit.Both), s.Nodes[0].A.Client
			ways := append(svc.Ways(client), svc.NodePortWays(s.Nodes[0], s.Outside())...)
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[1].A))
			svc.Update(ofAnotherProxy)
			s.Each(ways, kit.Unreachable())
			svc.Endpoints(s.Nodes[2].A.Ready())
			heard(s, client)
			svc.Update(func(o *corev1.Service) { o.Labels = nil })
			s.Each(ways, kit.Pods(s.Nodes[2].A))
			if s.Met(kit.NeedAgents) {
				others := s.Service(kit.NodePorts, kit.Both, ofAnotherProxy)
				others.Endpoints(s.Nodes[1].A.Ready())
				svc.LabelledSlice("headless", map[string]string{corev1.IsHeadlessService: ""}, s.Nodes[1].A.Ready())
				silent := append(others.Ways(client), others.NodePortWays(s.Nodes[0], s.Outside())...)
				s.Each(silent, kit.Unreachable())
				s.WithoutAgents(func() {})
				heard(s, client)
				s.Each(ways, kit.Pods(s.Nodes[2].A))
				s.Each(silent, kit.Unreachable())
			}
		},
	}
}
