package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func lbThroughBalancer() kit.Behaviour {
	return kit.Behaviour{
		ID: "lb-through-balancer", Level: kit.Must, Profile: kit.ProfileLB,
		Says:     "A Service of type LoadBalancer is reached from outside by way of the load balancer in mode Proxy: every endpoint answers.",
		Promises: []promise.Promise{promise.LoadBalancer, promise.Ingress},
		Source:   []string{"KEP-1860"},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should be able to change the type and ports of a TCP service [Slow]",
		Needs:    []kit.Need{kit.NeedLB},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Balanced)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[2].B.Client, kit.TCP(svc.NodePort(s.Nodes[2])), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			addr := svc.AwaitIngress()
			s.Expect(s.Outside(), kit.TCP(svc.At(addr)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.At(addr)), kit.Pods(s.Nodes[1].A))
		},
	}
}
