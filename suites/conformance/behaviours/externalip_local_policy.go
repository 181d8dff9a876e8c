package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-policy", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "externalIPs obey externalTrafficPolicy=Local as load balancers do: pods reach all endpoints, hosts outside those of the node alone.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.ExternalFromInside},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalLocal, kit.ExternalIPs(addr))
			host, to := s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(addr))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			s.Expect(host, to, kit.Pods(s.Nodes[0].A).FromItself())
			s.Expect(s.Nodes[2].B.Client, to, kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(s.Nodes[2].Client, to, kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(host, to, kit.Unreachable())
		},
	}
}
