package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipClusterPolicySource() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-cluster-policy-source", Level: kit.Should, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Cluster what arrives from outside reaches endpoints of other nodes with an address of the node that took it.",
		Promises: []promise.Promise{promise.Masquerade},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureMasquerade},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.HostBeyond(s.Nodes[0]), kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[1].A).From(s.Nodes[0].Addr(s.Family)))
		},
	}
}
