package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func frontendsChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "frontends-changed-while-away", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "Another address of a load balancer, a policy and endpoints that changed while the agents were away are followed when they are back, by TCP and UDP; the address of before is served no more.",
		Promises: []promise.Promise{promise.Ingress, promise.InternalLocal, promise.Synchronized},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents, kit.NeedNodes},
		Serial:   true,
		Run: func(s *kit.Spec) {
			svc, before := atVIP(s)
			local := s.Service(kit.Both)
			after, a, b := s.FreeAddr(), s.Nodes[0].A, s.Nodes[1].A
			clients := []kit.Client{s.Nodes[2].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client}
			svc.Endpoints(a.Ready())
			local.Endpoints(a.Ready(), b.Ready())
			old := svc.WaysTo(before, clients...)
			inside := local.Ways(s.Nodes[0].B.Client, s.Nodes[1].B.Client)
			s.Each(old, kit.Pods(a))
			s.Each(inside, kit.Pods(a, b))
			s.WithoutAgents(func() {
				svc.Ingress(corev1.LoadBalancerIPModeVIP, after)
				svc.Endpoints(b.Ready())
				local.Update(kit.InternalLocal)
			})
			s.Each(svc.WaysTo(after, clients...), kit.Pods(b))
			s.Each(old, kit.Unreachable())
			s.Each(local.Ways(s.Nodes[0].B.Client), kit.Pods(a))
			s.Each(local.Ways(s.Nodes[1].B.Client), kit.Pods(b))
		},
	}
}
