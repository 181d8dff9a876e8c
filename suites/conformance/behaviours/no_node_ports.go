package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func noNodePorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "no-node-ports", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "With allocateLoadBalancerNodePorts=false a Service has no node ports, one given up is no longer answered, the load balancer address works, and the node ports that it gets again are served, by TCP and UDP.",
		Promises: []promise.Promise{promise.NoNodePorts, promise.NodePortsRemoved},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1864"},
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			svc.Endpoints(s.Nodes[0].A.Ready())
			clients := []kit.Client{s.Nodes[1].B.Client, s.Nodes[1].Client}
			nodePorts := svc.NodePortWays(s.Nodes[2], clients...)
			s.Each(nodePorts, kit.Pods(s.Nodes[0].A))
			svc.Update(func(o *corev1.Service) {
				o.Spec.AllocateLoadBalancerNodePorts = new(false)
				o.Spec.Ports[0].NodePort, o.Spec.Ports[1].NodePort = 0, 0
			})
			if port := svc.Object().Spec.Ports[0].NodePort; port != 0 {
				s.Inconclusive("the API gave node port %d although none was to be allocated", port)
			}
			s.Each(nodePorts, kit.Unreachable())
			s.Each(svc.WaysTo(vip, clients...), kit.Pods(s.Nodes[0].A))
			svc.Update(func(o *corev1.Service) { o.Spec.AllocateLoadBalancerNodePorts = new(true) })
			s.Each(svc.NodePortWays(s.Nodes[2], clients...), kit.Pods(s.Nodes[0].A))
		},
	}
}
