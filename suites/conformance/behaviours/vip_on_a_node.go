package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipOnANode() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-on-a-node", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer in VIP mode is served where it is one of the node's own, as load balancers that run on nodes have it, to hosts outside, pods and that node itself, by TCP and UDP, under each policy, and so where it is the address that the node has anyway, which keeps its other ports, and from when it comes to the node, as an external IP is then too; health check node ports answer as before.",
		Promises: []promise.Promise{promise.Ingress, promise.IPModeVIP, promise.ExternalLocal, promise.ExternalFromInside, promise.ExternalIPs, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			n, vip := s.Nodes[0], s.FreeAddr()
			s.Owned(n, vip)
			svc := s.Service(kit.LoadBalanced, kit.Both)
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
			host, inside := svc.WaysTo(vip, s.HostBeyond(n)), svc.WaysTo(vip, n.B.Client, n.Client, s.Nodes[3].B.Client)
			s.Each(append(host, inside...), kit.Pods(n.A, s.Nodes[1].A))
			svc.Update(kit.ExternalLocal)
			s.Each(host, kit.Pods(n.A))
			s.Each(inside, kit.Pods(n.A, s.Nodes[1].A))
			rare := s.Service(kit.LoadBalanced, kit.Both, func(o *corev1.Service) { o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 7413, 7414 })
			rare.Ingress(corev1.LoadBalancerIPModeVIP, n.Addr(s.Family))
			rare.Endpoints(s.Nodes[1].A.Ready())
			s.Each(rare.WaysTo(n.Addr(s.Family), s.HostBeyond(n), n.B.Client, n.Client, s.Nodes[3].Client), kit.Pods(s.Nodes[1].A))
			s.Expect(s.Nodes[3].B.Client, kit.TCP(n.At(s.Family)), kit.Only(n.Client))
			later, addrs := atAll(s, kit.ExternalLocal)
			later.Endpoints(n.A.Ready())
			by := waysToAll(later, addrs, s.HostBeyond(n), n.B.Client, n.Client)
			s.Each(by, kit.Pods(n.A))
			for _, a := range addrs {
				s.Owned(n, a)
			}
			heard(s, n.B.Client)
			s.Each(by, kit.Pods(n.A))
			s.ExpectHTTP(s.Outside(), later.HealthPort(n), "/", kit.Status(200))
			later.Endpoints(s.Nodes[1].A.Ready())
			s.ExpectHTTP(s.Outside(), later.HealthPort(n), "/", kit.Status(503))
		},
	}
}
