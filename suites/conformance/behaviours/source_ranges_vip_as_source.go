package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesVIPAsSource() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-vip-as-source", Level: kit.Should, Profile: kit.ProfileSourceRanges,
		Says:     "Where the load balancer's address is on a node whose own address is in the loadBalancerSourceRanges, the node's connections to it, which come from that address, are let through.",
		Promises: []promise.Promise{promise.RangesDrop},
		Writes:   kit.SinceClass,
		Source: []string{
			"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go#L1564-L1583", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/iptables/proxier.go#L1186-L1205",
		},
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			n, pods := s.Nodes[0], []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(n.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(pods[0].Ready(), pods[1].Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Expect(n.Client, kit.TCP(svc.At(vip)), kit.Pods(pods...))
			s.Owned(n, vip)
			s.Expect(n.Client, kit.TCP(svc.At(vip)), kit.Pods(pods...))
			second := s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip, second)
			s.Owned(n, second)
			s.Expect(n.Client, kit.TCP(svc.At(second)), kit.Pods(pods...))
		},
	}
}
