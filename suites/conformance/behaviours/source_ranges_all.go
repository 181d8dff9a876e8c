package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesAll() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-all", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "A source range of length 0 lets every client through, also beside narrow ones.",
		Promises: []promise.Promise{promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			all := "0.0.0.0/0"
			if s.Family == corev1.IPv6Protocol {
				all = "::/0"
			}
			nobody, host := s.FreeAddr(), s.HostBeyond(s.Nodes[0])
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(nobody))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A))
			s.Expect(host, kit.TCP(svc.At(vip)), kit.Unreachable())
			svc.Update(kit.SourceRanges(all, kit.Alone(nobody)))
			s.Expect(host, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].Client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
		},
	}
}
