package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func udpFlowLeavesUnready() kit.Behaviour {
	return kit.Behaviour{
		ID: "udp-flow-leaves-unready", Level: kit.Should, Profile: kit.ProfileUDP,
		Says:     "A UDP flow whose endpoint is not ready any more, and stays in its slice, reaches a ready one, without a new source port, at node ports, the address of a load balancer and an external IP too.",
		Promises: []promise.Promise{promise.FlowsCleaned, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/130542"},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			a, b, n := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[3]
			svc.Endpoints(a.Ready(), b.NotReady())
			ways := ofPort(append(waysBy(s, n, svc, addrs), svc.Ways(n.Client)...), 1) // by UDP
			s.Each(ways, kit.Pods(a))
			reach := flow(s, ways)
			reach(a)
			svc.Endpoints(a.NotReady(), b.Ready())
			reach(b)
		},
	}
}
