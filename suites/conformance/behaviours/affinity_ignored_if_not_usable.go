package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityIgnoredIfNotUsable() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-ignored-if-not-usable", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "What is remembered of a client counts only where it may be used: under the policy Local it gets its node's endpoint though it had another under Cluster.",
		Promises: []promise.Promise{promise.AffinityUnusable, promise.InternalLocal},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-2086"},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal, kit.Sticky(600))
			n, there := s.Nodes[0], s.Nodes[1].A
			svc.Endpoints(there.Ready())
			s.ExpectOne(n.B.Client, kit.TCP(svc.NodePort(n)), 10, there.Client)
			svc.Endpoints(n.A.Ready(), there.Ready())
			s.Expect(n.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n.A))
		},
	}
}
