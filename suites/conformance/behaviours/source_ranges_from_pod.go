package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesFromPod() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-from-pod", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for pods as for hosts outside, by TCP and UDP, whatever ranges of the other IP family are beside theirs, as they change, and under externalTrafficPolicy=Local.",
		Promises: []promise.Promise{promise.RangesOnPods, promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges, kit.FeatureRangesOnPods},
		Run: func(s *kit.Spec) {
			inside, outside := s.Nodes[0].B.Client, s.Nodes[0].A.Client
			other, all := "::/0", "0.0.0.0/0"
			if s.Family == corev1.IPv6Protocol {
				other, all = all, other
			}
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(other, kit.Alone(inside.Addr(s.Family))), kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53))), s.FreeAddr()
			svc.Endpoints(s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			tcp, udp, answered := kit.TCP(svc.At(vip)), kit.UDP(svc.At(vip, "dns")), kit.Pods(s.Nodes[1].A)
			s.Expect(inside, tcp, answered)
			s.Expect(inside, udp, answered)
			s.Expect(outside, tcp, kit.Unreachable())
			s.Expect(outside, udp, kit.Unreachable())
			svc.Update(kit.SourceRanges(kit.Alone(outside.Addr(s.Family))))
			s.Expect(outside, tcp, answered)
			s.Expect(inside, tcp, kit.Unreachable())
			svc.Update(kit.SourceRanges(all, kit.Alone(outside.Addr(s.Family))))
			s.Expect(inside, tcp, answered)
			svc.Update(kit.SourceRanges())
			s.Expect(inside, tcp, answered)
			s.Expect(outside, udp, answered)
			local, at := atVIP(s, kit.ExternalLocal, kit.SourceRanges(kit.Alone(inside.Addr(s.Family))))
			local.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
			s.Each(local.WaysTo(at, inside), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
			s.Each(local.WaysTo(at, outside), kit.Unreachable())
		},
	}
}
