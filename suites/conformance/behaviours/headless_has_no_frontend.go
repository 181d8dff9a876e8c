package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func headlessHasNoFrontend() kit.Behaviour {
	return kit.Behaviour{
		ID: "headless-has-no-frontend", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "A headless Service is not served at any address, not even at an external IP that it names.",
		Promises: []promise.Promise{promise.Headless},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Run: func(s *kit.Spec) {
			vip, anchor, pod := s.FreeAddr(), s.FreeAddr(), s.Nodes[1].A
			headless := s.Service(kit.ExternalIPs(vip), func(o *corev1.Service) { o.Spec.ClusterIP = corev1.ClusterIPNone })
			headless.Endpoints(pod.Ready())
			after := s.Service(kit.ExternalIPs(anchor))
			after.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(after.At(anchor)), kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(headless.At(vip)), kit.Unreachable())
		},
	}
}
