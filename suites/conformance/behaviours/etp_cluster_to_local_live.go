package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpClusterToLocalLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-cluster-to-local-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "A change of externalTrafficPolicy to Local is followed: endpoints of the node alone, and no answer where there are none.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.Synchronized},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(here.A.Ready(), s.Nodes[2].A.Ready())
			for _, n := range []*kit.Node{here, there} {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(here.A, s.Nodes[2].A))
			}
			svc.Update(kit.ExternalLocal)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(here)), kit.Pods(here.A).From(s.Source(s.Outside(), here)))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(there)), kit.Unreachable())
		},
	}
}
