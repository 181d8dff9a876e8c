package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func restartUnderLoad() kit.Behaviour {
	return kit.Behaviour{
		ID: "restart-under-load", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says: "No new connection fails while a node's agent is killed and twice stopped, and each time started again: of a pod there, and of a client outside to its node port.",
		Source: []string{
			"https://github.com/kubernetes/kubernetes/issues/75360", "https://github.com/kubernetes/kubernetes/issues/119265", "KEP-2448",
		},
		Features: []kit.Feature{"forwards-without-agent"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts), s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			loads := []kit.Load{{From: n.B.Client, To: kit.TCP(svc.ClusterIP())}, {From: s.Outside(), To: kit.TCP(svc.NodePort(n))}}
			s.UnderLoad(loads, func() {
				s.KillAgent(n) // once: kubelets start again later what ends by itself again and again
				s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(200))
				for range 2 {
					s.WithoutAgents(func() {})
					s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(200))
				}
			}, a.Client, b.Client)
		},
	}
}
