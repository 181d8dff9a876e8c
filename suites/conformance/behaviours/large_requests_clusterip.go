package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func largeRequestsClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "large-requests-clusterip", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Requests and answers of 32 KiB pass whole through a ClusterIP, from pods and nodes to endpoints on every node, and forty of them by one connection.",
		Promises: []promise.Promise{promise.TCP, promise.ClusterIP},
		Upstream: "[sig-network] Networking Granular Checks: Services should be able to handle large requests: http",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			to, servers := kit.TCP(svc.ClusterIP()), []kit.Client{s.Nodes[0].A.Client, s.Nodes[1].A.Client}
			for _, c := range []kit.Client{s.Nodes[0].B.Client, s.Nodes[0].Client} {
				s.Expect(c, to, kit.Only(servers...))
				s.All(c, to, s.Attempts(c, to, remote.Batch{Attempts: 80, Payload: 32 << 10, Concurrency: 8}), servers...)
				askOn(s, c, to, servers)
			}
		},
	}
}
