package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func restartUnderLoad() kit.Behaviour {
	return kit.Behaviour{
		ID: "restart-under-load", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "No new connection fails while a node's agent is killed and twice stopped, and each time started again: of a pod there, and of a client outside to its node port.",
		Promises: []promise.Promise{promise.WithoutAgents},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360", "https://github.com/kubernetes/kubernetes/issues/119265"},
		Features: []kit.Feature{kit.FeatureForwardsAlone},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts), s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			loads := []kit.Way{{From: n.B.Client, To: kit.TCP(svc.ClusterIP())}, {From: s.Outside(), To: kit.TCP(svc.NodePort(n))}}
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
