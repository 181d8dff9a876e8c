package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTerminatingFallback() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-terminating-fallback", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP and no ready endpoint left, one of those that terminate and serve answers a client, at the ClusterIP, a node port and the address of a load balancer in VIP mode, by TCP and UDP.",
		Promises: []promise.Promise{promise.AllTerminating, promise.Affinity, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1672"},
		Features: []kit.Feature{kit.TerminatingFallback},
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s, kit.Sticky(600))
			svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
			inside := s.Inside()
			ways := append(svc.Ways(inside...), svc.WaysTo(vip, inside...)...)
			s.EachOne(append(ways, svc.NodePortWays(s.Nodes[3], s.Outside())...), s.OfKinds()...)
		},
	}
}
