package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceRecreatedAtItsAddress() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-recreated-at-its-address", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service that is made anew with the ClusterIP of one that was deleted is served by its own endpoints.",
		Promises: []promise.Promise{promise.Synchronized, promise.Transported},
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true,
		Run: func(s *kit.Spec) {
			old, pod := s.Service(), s.Nodes[0].A
			old.Endpoints(s.Nodes[0].B.Ready())
			s.Expect(pod.Client, kit.TCP(old.ClusterIP()), kit.Pods(s.Nodes[0].B))
			address := old.ClusterIP().Addr().String()
			old.Delete()
			svc := s.Service(func(o *corev1.Service) { o.Spec.ClusterIP = address })
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(pod.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
		},
	}
}
