package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackAffinity() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-affinity", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "With sessionAffinity=ClientIP a client of a Service of both families stays with one endpoint in each, at its ClusterIPs, node ports and the addresses of its load balancer, by TCP and UDP.",
		Promises: []promise.Promise{promise.Affinity, promise.Families, promise.Ingress},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.Both, kit.Sticky(600), kit.DualStack)
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A}
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, kit.ReadyAll(pods)...) })
			vips := givenBoth(s, svc)
			kit.InBoth(s, func(f corev1.IPFamily) {
				s.EachOne(svc.WaysTo(vips[f], s.Nodes[0].B.Client, s.Nodes[3].Client), kit.Clients(pods...)...)
				s.EachOne(svc.WaysTo(svc.ClusterIPOf(f).Addr(), s.Nodes[0].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client), kit.Clients(pods...)...)
				s.EachOne(svc.NodePortWays(s.Nodes[3], s.Outside()), kit.Clients(pods...)...)
			})
		},
	}
}
