package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local what arrives from outside at a node reaches the endpoints of that node alone, with the source it had.",
		Promises: []promise.Promise{promise.ExternalLocal},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow] should work for type=LoadBalancer",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[0].B).FromItself())
		},
	}
}
