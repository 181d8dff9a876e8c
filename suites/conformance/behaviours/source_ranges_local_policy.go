package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesLocalPolicy() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-local-policy", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges hold under externalTrafficPolicy=Local, by TCP and UDP, and clients in them keep their source address; the healthCheckNodePort answers everyone.",
		Promises: []promise.Promise{promise.SourceRanges, promise.ExternalLocal, promise.HealthCheckNodePort},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			inside, outside := s.HostsBeyond(s.Nodes[:3]...), s.HostsBeyond(s.Nodes[:3]...)
			var ranges []string
			for _, c := range inside {
				ranges = append(ranges, kit.Alone(c.Addr(s.Family)))
			}
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.SourceRanges(ranges...), kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Kinds()
			for i, server := range s.OfKinds() {
				s.Each(svc.WaysTo(vip, inside[i]), kit.Only(server).FromItself())
			}
			s.Each(svc.WaysTo(vip, outside...), kit.Unreachable())
			for _, c := range []kit.Client{outside[0], s.Outside()} { // they are not what the load balancer hands on
				s.ExpectHTTP(c, svc.HealthPort(s.Nodes[0]), "/", kit.Status(200))
			}
		},
	}
}
