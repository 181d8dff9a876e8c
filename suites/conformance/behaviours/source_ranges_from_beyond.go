package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-from-beyond", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold for hosts outside by the source address they have when they arrive at a node, whichever that is, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside := s.HostsBeyond(s.Nodes[0], s.Nodes[3]), s.HostBeyond(s.Nodes[3])
			ranges := []string{kit.Alone(inside[0].Addr(s.Family)), kit.Alone(inside[1].Addr(s.Family))}
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(ranges...), kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			want := svc.Kinds()
			s.Each(svc.WaysTo(vip, inside...), want)
			s.Each(svc.WaysTo(vip, outside), kit.Unreachable())
		},
	}
}
