package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func rulesFlushedRecreated() kit.Behaviour {
	return kit.Behaviour{
		ID: "rules-flushed-recreated", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "Rules that somebody else removes from a node come back by themselves, those of a ClusterIP, of node ports, of the address of a load balancer in VIP mode and of an external IP, for TCP and UDP.",
		Promises: []promise.Promise{promise.RulesWatched, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/81517", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/util/iptables/iptables.go"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // who looks for that looks every half a minute
			svc, addrs := atAll(s)
			n := s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			ways := waysBy(s, n, svc, addrs)
			s.Each(ways, kit.Pods(a, b))
			if !s.Flush(n) {
				s.Skip("it is not known how this dataplane's rules are removed from a node")
			}
			s.Each(ways, kit.Pods(a, b))
		},
	}
}
