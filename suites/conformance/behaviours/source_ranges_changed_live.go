package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesChangedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-changed-live", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "A change of loadBalancerSourceRanges is followed while the Service lives, and removing them lets everybody through, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges, promise.Synchronized},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Upstream: "[sig-network] LoadBalancers [Feature:LoadBalancer] should only allow access from service loadbalancer source ranges [Slow]",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			one, two := s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0])
			svc, vip := s.Service(kit.LoadBalanced, kit.Both, kit.SourceRanges(kit.Alone(one.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			first, second, want := svc.WaysTo(vip, one), svc.WaysTo(vip, two), kit.Pods(s.Nodes[0].A)
			s.Each(first, want)
			s.Each(second, kit.Unreachable())
			svc.Update(kit.SourceRanges(kit.Alone(two.Addr(s.Family))))
			s.Each(second, want)
			s.Each(first, kit.Unreachable())
			svc.Update(kit.SourceRanges())
			s.Each(append(first, second...), want)
		},
	}
}
