package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsIgnoredUnderLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-ignored-under-local", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "Under the policy Local, internal or external, hints do not count: a node's own endpoints are used whatever they are hinted for.",
		Promises: []promise.Promise{promise.PolicyBeforeHints},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-4444"},
		Needs:    []kit.Need{kit.NeedOutside, kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.InternalLocal, kit.ExternalLocal)
			n := s.Zoned()
			svc.Endpoints(
				n[0].A.Ready().ForZones(n[0].Zone).ForNodes(n[0].Name), n[0].B.Ready().ForZones(n[1].Zone).ForNodes(n[1].Name),
				n[1].A.Ready().ForZones(n[0].Zone).ForNodes(n[0].Name),
			)
			s.Expect(n[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[0].A, n[0].B))
			s.Expect(n[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(n[1].A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n[0])), kit.Pods(n[0].A, n[0].B))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n[1])), kit.Pods(n[1].A))
		},
	}
}
