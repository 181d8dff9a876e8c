package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalNameHasNoFrontend() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalname-has-no-frontend", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service that becomes one of type ExternalName is served at none of the addresses it had, and as type ClusterIP again it is served, as is one that was made with type ExternalName.",
		Promises: []promise.Promise{promise.NoProxying, promise.NoProxyingOfExternalName},
		Upstream: "[sig-network] Services should be able to change the type from NodePort to ExternalName",
		Serial:   true,
		Run: func(s *kit.Spec) {
			pod := s.Nodes[1].A
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(pod.Ready())
			client, clusterIP, node := s.Nodes[0].A.Client, svc.ClusterIP(), svc.NodePort(s.Nodes[0])
			for _, at := range []netip.AddrPort{clusterIP, node} {
				s.Expect(client, kit.TCP(at), kit.Pods(pod))
			}
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
			})
			for _, at := range []netip.AddrPort{clusterIP, node} {
				s.Expect(client, kit.TCP(at), kit.Unreachable())
			}
			named := s.Service(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName, o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = corev1.ServiceTypeExternalName, "example.com", nil, nil
			})
			named.Endpoints(pod.Ready())
			for _, v := range []*kit.Service{svc, named} {
				v.Update(func(o *corev1.Service) {
					o.Spec.Type, o.Spec.ExternalName, o.Spec.IPFamilies = corev1.ServiceTypeClusterIP, "", []corev1.IPFamily{s.Family}
				})
				s.Expect(client, kit.TCP(v.ClusterIP()), kit.Pods(pod))
			}
		},
	}
}
