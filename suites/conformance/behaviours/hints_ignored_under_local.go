package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsIgnoredUnderLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-ignored-under-local", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "Under the policy Local, internal or external, hints do not count: a node's own endpoints are used whatever they are hinted for, by TCP and UDP.",
		Promises: []promise.Promise{promise.PolicyBeforeHints},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-4444"},
		Needs:    []kit.Need{kit.NeedOutside, kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.InternalLocal, kit.ExternalLocal, kit.Both), s.Zoned()
			hintElsewhere(svc, n)
			for i, want := range []kit.Want{kit.Pods(n[0].A, n[0].B), kit.Pods(n[1].A)} {
				s.Each(append(svc.Ways(n[i].B.Client), svc.NodePortWays(n[i], s.Outside())...), want)
			}
		},
	}
}

// hintElsewhere gives a Service two endpoints on a node and one on another, of which some are hinted for where they
// are not.
func hintElsewhere(svc *kit.Service, n []*kit.Node) {
	svc.Endpoints(
		n[0].A.Ready().ForZones(n[0].Zone).ForNodes(n[0].Name), n[0].B.Ready().ForZones(n[1].Zone).ForNodes(n[1].Name),
		n[1].A.Ready().ForZones(n[0].Zone).ForNodes(n[0].Name),
	)
}
