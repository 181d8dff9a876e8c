package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func targetPortChanged() kit.Behaviour {
	return kit.Behaviour{
		ID: "target-port-changed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "When the target port of the endpoints changes, connections go to the new one alone.",
		Promises: []promise.Promise{promise.AnyTargetPort, promise.Synchronized},
		Upstream: "[sig-network] Conntrack should be able to cleanup conntrack entries when UDP service target port changes for a NodePort service",
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod).ServedAt(kit.PodPort))
			svc.Update(func(o *corev1.Service) { o.Spec.Ports[0].TargetPort = intstr.FromInt32(kit.OtherPort) })
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod).ServedAt(kit.OtherPort))
		},
	}
}
