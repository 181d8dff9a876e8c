package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	ptr "k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func publishNotReady() kit.Behaviour {
	return kit.Behaviour{
		ID: "publish-not-ready", Level: kit.Must, Profile: kit.ProfileTerminating,
		Says:     "Endpoints published as ready get connections and datagrams like all ready ones, whether they serve or terminate (publishNotReadyAddresses), at the ClusterIP, node ports, the address of a load balancer in VIP mode and an external IP, under each policy.",
		Promises: []promise.Promise{promise.PublishNotReady, promise.Ready, promise.Ingress, promise.ExternalIPs, promise.InternalLocal, promise.ExternalLocal},
		Source:   []string{"KEP-1672"},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be able to connect to terminating and unready endpoints if PublishNotReadyAddresses is true",
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s, func(o *corev1.Service) { o.Spec.PublishNotReadyAddresses = true })
			ways := append(svc.Ways(s.Nodes[0].B.Client, s.Nodes[3].Client), svc.NodePortWays(s.Nodes[3], s.Outside(), s.Nodes[3].B.Client)...)
			ways = append(ways, waysToAll(svc, addrs, s.Nodes[0].B.Client, s.Nodes[3].Client)...)
			unready := s.Nodes[0].A.Ready().With(ptr.To(true), ptr.To(false), ptr.To(false))
			ending := s.Nodes[1].A.Ready().With(ptr.To(true), ptr.To(false), ptr.To(true))
			draining := s.Nodes[1].B.Ready().With(ptr.To(true), ptr.To(true), ptr.To(true))
			svc.Endpoints(unready, ending, draining, s.Nodes[2].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[0].A, s.Nodes[1].A, s.Nodes[1].B, s.Nodes[2].A))
			svc.Endpoints(ending)
			s.Each(ways, kit.Pods(s.Nodes[1].A))
			n := s.Nodes[1]
			local := s.Service(kit.LoadBalanced, kit.Both, kit.InternalLocal, kit.ExternalLocal, func(o *corev1.Service) { o.Spec.PublishNotReadyAddresses = true })
			local.Endpoints(ending, draining, unready)
			s.Each(append(local.Ways(n.Client), local.NodePortWays(n, s.Outside())...), kit.Pods(n.A, n.B))
		},
	}
}
