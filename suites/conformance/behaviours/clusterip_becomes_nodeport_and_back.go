package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPBecomesNodePortAndBack() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-becomes-nodeport-and-back", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A Service that becomes one of type NodePort, or of type LoadBalancer at once, is served at its node ports, by TCP and UDP, and back at type ClusterIP no more; its ClusterIP loses no connection.",
		Promises: []promise.Promise{promise.NodePort, promise.NodePortWiped},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should be able to change the type from ExternalName to NodePort",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.Both), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Throughout(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), 200, func() {
				for _, become := range []func(*corev1.Service){kit.NodePorts, kit.LoadBalanced} {
					svc.Update(become)
					ways := svc.NodePortWays(s.Nodes[0], s.Outside(), s.Nodes[0].B.Client)
					s.Each(ways, kit.Pods(pod))
					svc.Update(func(o *corev1.Service) {
						o.Spec.Type, o.Spec.LoadBalancerClass, o.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil, nil
						o.Spec.ExternalTrafficPolicy = ""
					})
					s.Each(ways, kit.Unreachable())
				}
			}, pod.Client)
		},
	}
}
