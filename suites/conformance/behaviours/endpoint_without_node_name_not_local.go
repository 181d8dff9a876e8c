package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func endpointWithoutNodeNameNotLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-without-node-name-not-local", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "An endpoint of another node, of which the slice names none, is not taken for a node's own: under policy Local neither the ClusterIP nor a node port is answered there, and the healthCheckNodePort answers 503.",
		Promises: []promise.Promise{promise.NodeName, promise.InternalLocal, promise.ExternalLocalDrops, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, here, pod := s.Service(kit.LoadBalanced, kit.InternalLocal, kit.ExternalLocal, kit.Both), s.Nodes[0], s.Nodes[1].A
			ways := append(svc.Ways(here.B.Client, here.Client), svc.NodePortWays(here, s.Outside())...)
			svc.Endpoints(here.A.Ready(), pod.Ready())
			s.Each(ways, kit.Pods(here.A))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(here), "/", kit.Status(200))
			svc.Endpoints(kit.Address(pod.Addr(s.Family)))
			s.Each(ways, kit.Unreachable())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(here), "/", kit.Status(503))
		},
	}
}
