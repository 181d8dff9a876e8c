package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func etpLocalToClusterLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "etp-local-to-cluster-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "A change of externalTrafficPolicy to Cluster is followed: every node leads to all endpoints.",
		Promises: []promise.Promise{promise.ReadyEndpoints, promise.Synchronized, promise.EveryNode},
		Upstream: "[sig-network] Services should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
		Needs:    []kit.Need{kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.ExternalLocal)
			here, there := s.Nodes[0], s.Nodes[1]
			svc.Endpoints(here.A.Ready(), s.Nodes[2].A.Ready())
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(here)), kit.Pods(here.A))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(there)), kit.Unreachable())
			svc.Update(func(o *corev1.Service) { o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster })
			for _, n := range []*kit.Node{here, there} {
				s.Expect(s.Outside(), kit.TCP(svc.NodePort(n)), kit.Pods(here.A, s.Nodes[2].A))
			}
		},
	}
}
