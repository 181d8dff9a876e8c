package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func healthzTaintedNodeServes() kit.Behaviour {
	return kit.Behaviour{
		ID: "healthz-tainted-node-serves", Level: kit.Must, Profile: kit.ProfileHealth,
		Says:     "A node that is about to be deleted, is cordoned and is excluded from load balancers goes on forwarding what arrives at its node ports, and its endpoints go on to be reached from everywhere: the load balancer drains it; and so are those of a node of which the API says that it is not ready, as long as their slice says that they are; and its healthCheckNodePort goes on to say so.",
		Promises: []promise.Promise{promise.EveryNode, promise.AnyNode, promise.ClusterIP, promise.Ready, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedTaint},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts)
			n := s.Nodes[0]
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			both := kit.Pods(n.A, s.Nodes[1].A)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), both)
			local := s.Service(kit.LoadBalanced, kit.ExternalLocal)
			local.Endpoints(n.A.Ready())
			s.ExpectHTTP(s.Outside(), local.HealthPort(n), "/", kit.Status(200))
			flows := s.Flows(s.Outside(), kit.TCP(svc.NodePort(n)), 8)
			s.Throughout(s.Outside(), kit.TCP(svc.NodePort(n)), 50, func() {
				s.Label(n, corev1.LabelNodeExcludeBalancers, "true")
				s.Cordon(n)
				s.Taint(n, kit.ToBeDeleted())
				s.KeepsHTTP(kit.Heard, s.Outside(), local.HealthPort(n), "/", kit.Status(200))
			}, n.A.Client, s.Nodes[1].A.Client)
			flows.Stay()
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready(), n.B.Ready()) // who is an endpoint is decided anew
			all := kit.Pods(n.A, s.Nodes[1].A, n.B)
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), all)
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.ClusterIP()), all)
			s.Expect(s.Nodes[2].Client, kit.TCP(svc.ClusterIP()), all)
			s.WhileNotReady(n, func() {
				s.KeepsHTTP(kit.Heard, s.Outside(), local.HealthPort(n), "/", kit.Status(200))
				svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
				s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.ClusterIP()), both)
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[1])), both)
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), both)
			})
		},
	}
}
