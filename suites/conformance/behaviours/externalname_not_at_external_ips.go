package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalNameNotAtExternalIPs() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalname-not-at-external-ips", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A Service of type ExternalName is not served at an external IP that it names, whatever endpoints are said to be its, nor is one that becomes such; of type ClusterIP and NodePort it is served there, also when it goes from one to the other, and back.",
		Promises: []promise.Promise{promise.NoProxying, promise.NoProxyingOfExternalName, promise.ExternalIPs},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			addr, anchor, pod := s.FreeAddr(), s.FreeAddr(), s.Nodes[1].A
			named := s.Service(kit.ExternalIPs(addr), func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
				o.Spec.IPFamilies, o.Spec.IPFamilyPolicy = nil, nil
			})
			named.Endpoints(pod.Ready())
			after := s.Service(kit.ExternalIPs(anchor))
			after.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(after.At(anchor)), kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(named.At(addr)), kit.Unreachable())
			svc, at := atExternalIP(s)
			svc.Endpoints(pod.Ready())
			ways := svc.WaysTo(at, s.Nodes[0].A.Client, s.Nodes[3].Client)
			clusterIP := func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName, o.Spec.IPFamilies = corev1.ServiceTypeClusterIP, "", []corev1.IPFamily{s.Family}
				o.Spec.Ports[0].NodePort, o.Spec.Ports[1].NodePort = 0, 0
			}
			for _, become := range []func(*corev1.Service){func(*corev1.Service) {}, kit.NodePorts, clusterIP} {
				svc.Update(become)
				heard(s, s.Nodes[0].A.Client, s.Nodes[3].Client)
				s.Each(ways, kit.Pods(pod))
			}
			svc.Update(func(o *corev1.Service) {
				o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
			})
			s.Each(ways, kit.Unreachable())
			svc.Update(clusterIP)
			s.Each(ways, kit.Pods(pod))
		},
	}
}
