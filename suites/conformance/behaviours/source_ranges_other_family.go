package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesOtherFamily() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-other-family", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "Source ranges of the other IP family neither let clients through nor keep out those in a range of theirs.",
		Promises: []promise.Promise{promise.SourceRanges, promise.Families},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-563"},
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0])
			other := "::/0"
			if s.Family == corev1.IPv6Protocol {
				other = "0.0.0.0/0"
			}
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(other, kit.Alone(inside.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(outside, kit.TCP(svc.At(vip)), kit.Unreachable())
		},
	}
}
