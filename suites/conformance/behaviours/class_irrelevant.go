package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func classIrrelevant() kit.Behaviour {
	return kit.Behaviour{
		ID: "class-irrelevant", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A dataplane handles the address in the status whichever loadBalancerClass the Service has.",
		Promises: []promise.Promise{promise.Ingress, promise.LoadBalancerClass},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1959"},
		Run: func(s *kit.Spec) {
			for i, class := range []string{"example.com/one", "two.example.org/balancer"} {
				svc, vip := s.Service(kit.LoadBalanced, func(o *corev1.Service) { o.Spec.LoadBalancerClass = &class }), s.FreeAddr()
				svc.Endpoints(s.Nodes[i].A.Ready())
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				s.Expect(s.Nodes[2].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[i].A))
			}
		},
	}
}
