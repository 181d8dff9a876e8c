package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func noNodePorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "no-node-ports", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "With allocateLoadBalancerNodePorts=false a Service has no node ports, one given up is no longer answered, and the load balancer address works.",
		Promises: []promise.Promise{promise.NoNodePorts, promise.NodePortsRemoved},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1864"},
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			client, nodePort := s.Nodes[1].B.Client, kit.TCP(svc.NodePort(s.Nodes[2]))
			s.Expect(client, nodePort, kit.Pods(s.Nodes[0].A))
			svc.Update(func(o *corev1.Service) {
				o.Spec.AllocateLoadBalancerNodePorts = new(false)
				o.Spec.Ports[0].NodePort = 0
			})
			if port := svc.Object().Spec.Ports[0].NodePort; port != 0 {
				s.Inconclusive("the API gave node port %d although none was to be allocated", port)
			}
			s.Expect(client, nodePort, kit.Unreachable())
			s.Expect(client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[1].Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
		},
	}
}
