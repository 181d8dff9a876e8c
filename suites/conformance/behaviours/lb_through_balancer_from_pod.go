package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func lbThroughBalancerFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "lb-through-balancer-from-pod", Level: kit.Must, Profile: kit.ProfileLB,
		Says:     "A pod that dials a load balancer in mode Proxy goes through it, like a client outside, and is answered.",
		Promises: []promise.Promise{promise.IPMode, promise.Ingress},
		Source:   []string{"KEP-1860"},
		Features: []kit.Feature{kit.FeatureIPMode},
		Needs:    []kit.Need{kit.NeedLB},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Balanced, kit.ExternalLocal)
			svc.Endpoints(s.Nodes[0].A.Ready())
			addr := svc.AwaitIngress()
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.At(addr)), kit.Pods(s.Nodes[0].A).From(addr))
		},
	}
}
