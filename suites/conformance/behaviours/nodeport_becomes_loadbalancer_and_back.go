package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortBecomesLoadBalancerAndBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-becomes-loadbalancer-and-back", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A Service that becomes one of type LoadBalancer is served at the address that it gets, and back at type NodePort no more; its node ports and its ClusterIP are served all along, and lose no connection and no datagram.",
		Promises: []promise.Promise{promise.Ingress, promise.NodePort, promise.Synchronized, promise.UDP},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should be able to change the type and ports of a TCP service [Slow]",
		Run: func(s *kit.Spec) {
			svc, pod, vip := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A, s.FreeAddr()
			svc.Endpoints(pod.Ready())
			nodePorts := svc.NodePortWays(s.Nodes[3], s.Outside(), s.Nodes[3].B.Client)
			ways := svc.WaysTo(vip, s.Nodes[0].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client)
			s.Each(nodePorts, kit.Pods(pod))
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.UnderLoad(append(svc.Ways(s.Nodes[0].A.Client), nodePorts...), func() {
				for range 2 {
					svc.Update(kit.LoadBalanced)
					svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
					s.Each(append(ways, nodePorts...), kit.Pods(pod))
					svc.Update(func(o *corev1.Service) {
						o.Spec.Type, o.Spec.LoadBalancerClass = corev1.ServiceTypeNodePort, nil
						o.Spec.AllocateLoadBalancerNodePorts = nil
					})
					s.Each(ways, kit.Unreachable())
					s.Each(nodePorts, kit.Pods(pod))
				}
			}, pod.Client)
		},
	}
}
