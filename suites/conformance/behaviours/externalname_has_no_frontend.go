package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

func externalNameHasNoFrontend() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalname-has-no-frontend", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service that becomes one of type ExternalName is served at none of the addresses it had, and as type ClusterIP again it is served.",
		Source:   []string{"https://kubernetes.io/docs/concepts/services-networking/service/#externalname"},
		Upstream: "[sig-network] Services should be able to change the type from NodePort to ExternalName",
		Serial:   true,
		Run: func(s *kit.Spec) {
			vip, pod := s.FreeAddr(), s.Nodes[1].A
			svc := s.Service(kit.NodePorts, kit.ExternalIPs(vip))
			svc.Endpoints(pod.Ready())
			client, clusterIP, node := s.Nodes[0].A.Client, svc.ClusterIP(), svc.NodePort(s.Nodes[0])
			for _, at := range []netip.AddrPort{clusterIP, node, svc.At(vip)} {
				s.Expect(client, kit.TCP(at), kit.Pods(pod))
			}
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
			})
			for _, at := range []netip.AddrPort{clusterIP, node, svc.At(vip)} {
				s.Expect(client, kit.TCP(at), kit.Unreachable())
			}
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName, o.Spec.IPFamilies = corev1.ServiceTypeClusterIP, "", []corev1.IPFamily{s.Family}
			})
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
		},
	}
}
