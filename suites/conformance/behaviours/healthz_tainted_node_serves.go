package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func healthzTaintedNodeServes() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-tainted-node-serves", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:   "A node that is about to be deleted goes on forwarding what arrives at its node ports: the load balancer drains it.",
		Source: []string{"KEP-3836"},
		Needs:  []kit.Need{kit.NeedTaint},
		Serial: true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			both := kit.Pods(n.A, s.Nodes[1].A)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), both)
			flows := s.Flows(s.Outside(), kit.TCP(svc.NodePort(n)), 8)
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(200))
			s.Taint(n, kit.ToBeDeleted())
			s.ExpectHTTP(s.Outside(), s.ProxyHealth(n), "/healthz", kit.Status(503))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), both)
			flows.Stay()
		},
	}
}
