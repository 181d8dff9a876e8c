package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-from-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local a process on a node that dials the load balancer reaches the endpoints of all nodes.",
		Promises: []promise.Promise{promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			for _, n := range s.Nodes[:3] {
				s.Expect(n.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			}
		},
	}
}
