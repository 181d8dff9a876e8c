package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceRecreatedAtItsAddress() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-recreated-at-its-address", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service that is made anew with the ClusterIP of one that was deleted is served by its own endpoints, of another name or of the same, with session affinity and without.",
		Promises: []promise.Promise{promise.Synchronized, promise.Transported},
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true,
		Run: func(s *kit.Spec) {
			n := s.Nodes
			for _, affinity := range []func(*corev1.Service){func(*corev1.Service) {}, kit.Sticky(600)} {
				old := s.Service(affinity)
				old.Endpoints(n[0].B.Ready())
				ways, address := old.Ways(n[0].A.Client, n[3].Client), old.ClusterIP().Addr().String()
				s.Each(ways, kit.Pods(n[0].B))
				old.Delete()
				svc := s.Service(affinity, func(o *corev1.Service) { o.Spec.ClusterIP = address })
				svc.Endpoints(n[1].A.Ready())
				s.Each(ways, kit.Pods(n[1].A))
				svc.DeleteAlone()
				svc.Make()
				svc.Endpoints(n[2].A.Ready())
				s.Each(ways, kit.Pods(n[2].A))
			}
		},
	}
}
