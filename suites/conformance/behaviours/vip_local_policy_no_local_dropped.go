package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyNoLocalDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-no-local-dropped", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local what arrives from outside at a node without an endpoint is dropped while another node has one.",
		Promises: []promise.Promise{promise.ExternalLocalDrops},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal), s.FreeAddr()
			host, to := s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(vip))
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(host, to, kit.Pods(s.Nodes[0].A))
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(host, to, kit.Dropped())
			s.Expect(s.Nodes[0].B.Client, to, kit.Pods(s.Nodes[1].A))
		},
	}
}
