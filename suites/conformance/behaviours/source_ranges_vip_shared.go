package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesVIPShared() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-vip-shared", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges of one Service do not hold for another that shares the address of its load balancer.",
		Promises: []promise.Promise{promise.SourceRanges, promise.IPModeVIP, promise.Ingress},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			n, vip := s.Nodes, s.FreeAddr()
			in, out := s.HostBeyond(n[0]), s.HostBeyond(n[0])
			one := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(in.Addr(s.Family))))
			two := s.Service(kit.LoadBalanced, kit.Ports(kit.Port("http", corev1.ProtocolTCP, 81)))
			one.Endpoints(n[0].A.Ready())
			two.Endpoints(n[1].A.Ready())
			one.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(in, kit.TCP(one.At(vip)), kit.Pods(n[0].A))
			two.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Each(two.WaysTo(vip, in, out), kit.Pods(n[1].A))
			s.Expect(in, kit.TCP(one.At(vip)), kit.Pods(n[0].A))
			s.Expect(out, kit.TCP(one.At(vip)), kit.Unreachable())
		},
	}
}
