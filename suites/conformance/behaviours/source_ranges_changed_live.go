package behaviours

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesChangedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-changed-live", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "A change of loadBalancerSourceRanges is followed while the Service lives, and removing them lets everybody through, also where clients have an endpoint of a Service with affinity; a port and an address that it gets later are held to them too, and the next Service that has the address is not, by TCP and UDP.",
		Promises: []promise.Promise{promise.SourceRanges, promise.Synchronized, promise.Ingress},
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
			for _, affinity := range affinities() {
				svc.Update(affinity)
				s.Each(first, want)
				svc.Update(kit.SourceRanges(kit.Alone(two.Addr(s.Family))))
				s.Each(second, want)
				s.Each(first, kit.Unreachable())
				svc.Update(kit.SourceRanges())
				s.Each(slices.Concat(first, second), want)
			}
			svc.Update(kit.NotSticky)
			svc.Update(kit.SourceRanges(kit.Alone(one.Addr(s.Family))))
			s.Each(first, want)
			s.Each(second, kit.Unreachable())
			svc.Update(func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81)) })
			svc.Endpoints(s.Nodes[0].A.Ready())
			addrs := []netip.Addr{vip, s.FreeAddr()}
			svc.Ingress(corev1.LoadBalancerIPModeVIP, addrs...)
			s.Each(waysToAll(svc, addrs, one), want)
			s.Each(waysToAll(svc, addrs, two), kit.Unreachable())
			svc.Delete()
			next := s.Service(kit.LoadBalanced, kit.Both)
			next.Endpoints(s.Nodes[0].A.Ready())
			next.Ingress(corev1.LoadBalancerIPModeVIP, addrs...)
			s.Each(waysToAll(next, addrs, one, two), want)
		},
	}
}
