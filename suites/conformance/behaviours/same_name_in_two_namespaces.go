package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sameNameInTwoNamespaces() kit.Behaviour {
	return kit.Behaviour{
		ID: "same-name-in-two-namespaces", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Services of one name in two namespaces, with slices of one name, are two: each has its own address and endpoints, and one stays when the other goes.",
		Promises: []promise.Promise{promise.NamesOfNamespace, promise.ClusterIP},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(), s.Nodes
			svc.Endpoints(n[0].A.Ready())
			other, own := svc.Namesake(n[1].A), kit.TCP(svc.ClusterIP())
			clients := []kit.Client{n[0].B.Client, n[3].Client}
			for _, c := range clients {
				s.Expect(c, own, kit.Pods(n[0].A))
				s.Expect(c, other, kit.Pods(n[1].A))
			}
			svc.Endpoints(n[2].A.Ready())
			for _, c := range clients {
				s.Expect(c, own, kit.Pods(n[2].A))
				s.Expect(c, other, kit.Pods(n[1].A))
			}
			svc.Delete()
			for _, c := range clients {
				s.Expect(c, own, kit.Unreachable())
				s.Expect(c, other, kit.Pods(n[1].A))
			}
		},
	}
}
