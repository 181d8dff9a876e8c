package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalNameNotAtExternalIPs() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalname-not-at-external-ips", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A Service of type ExternalName is not served at an external IP that it names, whatever endpoints are said to be its.",
		Promises: []promise.Promise{promise.NoProxying, promise.NoProxyingOfExternalName},
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
		},
	}
}
