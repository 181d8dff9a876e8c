package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func lbThroughBalancerLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "lb-through-balancer-local-policy", Level: kit.Must, Profile: kit.ProfileLB,
		Says:     "Under externalTrafficPolicy=Local the load balancer finds, by the health check node port, the nodes with endpoints, and loses no connection there.",
		Promises: []promise.Promise{promise.LoadBalancer, promise.HealthCheckNodePort},
		Source:   []string{"KEP-1860"},
		Upstream: "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow] should only target nodes with endpoints",
		Needs:    []kit.Need{kit.NeedLB},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Balanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[1]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[2]), "/", kit.Status(503))
			addr := svc.AwaitIngress()
			s.Expect(s.Outside(), kit.TCP(svc.At(addr)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A).From(addr))
		},
	}
}
