package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesNotOnExternalIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-not-on-externalip", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges do not hold at externalIPs of the Service: clients in none of them are answered.",
		Promises: []promise.Promise{promise.SourceRanges, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			external := s.FreeAddr()
			inside, outside, pod := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0]), s.Nodes[0].A.Client
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalIPs(external), kit.SourceRanges(kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].B.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].B))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
			s.Expect(outside, kit.TCP(svc.At(external)), kit.Pods(s.Nodes[0].B))
			s.Expect(pod, kit.TCP(svc.At(external)), kit.Pods(s.Nodes[0].B))
			s.Expect(s.Nodes[0].Client, kit.TCP(svc.At(external)), kit.Pods(s.Nodes[0].B))
		},
	}
}
