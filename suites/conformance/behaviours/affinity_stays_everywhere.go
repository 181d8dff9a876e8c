package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityStaysEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-stays-everywhere", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client stays with its endpoint when others leave and come back, and when something else of the Service changes, at the address of a load balancer in VIP mode, at an external IP and from outside at a node port too, by TCP and UDP.",
		Promises: []promise.Promise{promise.Affinity, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s, kit.Sticky(600))
			inside := []kit.Client{s.Nodes[0].B.Client, s.Nodes[3].Client}
			stayBound(s, svc, append(svc.WaysTo(vip, inside...), svc.NodePortWays(s.Nodes[3], s.Outside())...), inside)
			if s.Has(kit.FeatureExternalIPs) {
				svc, external := atExternalIP(s, kit.Sticky(600))
				stayBound(s, svc, svc.WaysTo(external, inside...), inside)
			}
		},
	}
}
