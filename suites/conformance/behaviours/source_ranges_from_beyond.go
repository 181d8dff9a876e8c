package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-from-beyond", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for hosts outside by the source address they have when they arrive at a node.",
		Promises: []promise.Promise{promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0])
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A, s.Nodes[1].A))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
		},
	}
}
