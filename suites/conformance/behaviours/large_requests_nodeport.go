package behaviours

import (
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func largeRequestsNodePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "large-requests-nodeport", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Requests and answers of 32 KiB pass whole through a node port, to endpoints on the same node and on others, and forty of them by one connection.",
		Promises: []promise.Promise{promise.TCP, promise.NodePort},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			to, servers := kit.TCP(svc.NodePort(s.Nodes[0])), []kit.Client{s.Nodes[0].A.Client, s.Nodes[1].A.Client}
			s.Expect(s.Outside(), to, kit.Only(servers...))
			s.All(s.Outside(), to, s.Attempts(s.Outside(), to, remote.Batch{Attempts: 80, Payload: 32 << 10, Concurrency: 8}), servers...)
			askOn(s, s.Outside(), to, servers)
		},
	}
}
