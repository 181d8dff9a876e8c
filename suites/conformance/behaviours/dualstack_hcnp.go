package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackHCNP() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-hcnp", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "The healthCheckNodePort of a Service of both families answers 200 at a node's address of each if endpoints of both are there, and 503 at those of a node that has none.",
		Promises: []promise.Promise{promise.HealthCheckNodePort, promise.Families},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.DualStack)
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready()) })
			kit.InBoth(s, func(corev1.IPFamily) {
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
				s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(503))
			})
		},
	}
}
