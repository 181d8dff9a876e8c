package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesUDP() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-udp", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for UDP as for TCP, also with session affinity.",
		Promises: []promise.Promise{promise.SourceRanges, promise.UDP},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0])
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(inside.Addr(s.Family))), kit.Sticky(600), kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(inside, kit.UDP(svc.At(vip, "dns")), kit.Pods(s.Nodes[0].A))
			s.Expect(outside, kit.UDP(svc.At(vip, "dns")), kit.Unreachable())
		},
	}
}
