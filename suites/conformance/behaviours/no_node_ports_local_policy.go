package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func noNodePortsLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "no-node-ports-local-policy", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A Service without node ports obeys externalTrafficPolicy=Local at its load balancer address, and has a healthCheckNodePort.",
		Promises: []promise.Promise{promise.NoNodePorts, promise.ExternalLocal, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1864"},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			without := func(o *corev1.Service) { o.Spec.AllocateLoadBalancerNodePorts = new(false) }
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, without), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A).FromItself())
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			s.ExpectHTTP(s.Outside(), svc.HealthPort(s.Nodes[2]), "/", kit.Status(503))
		},
	}
}
