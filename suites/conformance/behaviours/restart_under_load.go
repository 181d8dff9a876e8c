package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func restartUnderLoad() kit.Behaviour {
	return kit.Behaviour{
		ID: "restart-under-load", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "No new connection fails while a node's agent is killed and twice stopped, and each time started again: of a pod there, and of clients outside, to its node port, the address of a load balancer in VIP mode and an external IP, of a Service with a slice for each endpoint.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360", "https://github.com/kubernetes/kubernetes/issues/119265"},
		Features: []kit.Feature{kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			n := s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			inSlicesOfTheirOwn(svc, a, b)
			loads := ofPort(waysBy(s, n, svc, addrs), 0) // by TCP
			s.UnderLoad(loads, func() {
				s.KillAgent(n) // once: kubelets start again later what ends by itself again and again
				s.ExpectFollowing()
				for range 2 {
					s.WithoutAgents(func() {})
					s.ExpectFollowing()
				}
			}, a.Client, b.Client)
		},
	}
}
