package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-from-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local a process on a node that dials the load balancer reaches the endpoints of all nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalFromInside, promise.AnyBackend},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/123714"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			for _, beside := range s.Beside() {
				want := svc.Kinds(beside...)
				s.Each(svc.WaysTo(vip, s.NodeClients()...), want) // with an endpoint of their node and without
			}
		},
	}
}
