package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpNewConnectionsGoElsewhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-new-connections-go-elsewhere", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "While an old TCP connection lasts at an endpoint that has gone, each new one from the same client goes to those that are left.",
		Promises: []promise.Promise{promise.ClientsUnaware, promise.ReadyEndpointsInside},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			a, b, c := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A
			client, to := s.Nodes[3].B.Client, kit.TCP(svc.ClusterIP())
			svc.Endpoints(a.Ready(), b.Ready(), c.Ready())
			s.Expect(client, to, kit.Pods(a, b, c))
			flows := s.Flows(client, to, 16)
			svc.Endpoints(b.Ready(), c.Ready())
			s.Expect(client, to, kit.Pods(b, c))
			svc.Endpoints(c.Ready())
			s.Expect(client, to, kit.Pods(c))
			flows.Stay()
		},
	}
}
