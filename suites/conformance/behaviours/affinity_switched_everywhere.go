package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySwitchedEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-switched-everywhere", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "sessionAffinity that a Service gets and loses again is followed at its ClusterIP, a node port, the address of its load balancer in VIP mode and an external IP, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.Affinity, promise.Synchronized, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be able to switch session affinity for NodePort service [LinuxOnly]",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			want, n := svc.Kinds(), s.Nodes
			inside := []kit.Client{n[0].B.Client, n[3].B.Client, n[3].Client}
			ways := append(svc.Ways(inside...), waysToAll(svc, addrs, append(inside, s.HostBeyond(n[3]))...)...)
			ways = append(ways, svc.NodePortWays(n[3], s.Outside(), n[3].B.Client)...)
			s.Each(ways, want)
			for range 2 {
				svc.Update(kit.Sticky(600))
				s.EachOne(ways, s.OfKinds()...)
				svc.Update(kit.NotSticky)
				s.Each(ways, want)
			}
		},
	}
}
