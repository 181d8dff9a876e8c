package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySharedOverAddresses() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-shared-over-addresses", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "A client has the same endpoint by a Service port's ClusterIP, node port and load balancer address, whichever it used first.",
		Promises: []promise.Promise{promise.AffinityShared},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureAffinityShared},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.LoadBalanced, kit.Sticky(600))
			vip := netip.MustParseAddr(map[corev1.IPFamily]string{corev1.IPv4Protocol: "203.0.113.213", corev1.IPv6Protocol: "2001:db8:53::213"}[s.Family])
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			for i, p := range pods { // by chance all are the same once in 10^14 runs
				at := []netip.AddrPort{svc.ClusterIP(), svc.NodePort(p.Node), svc.At(vip)}
				server := s.ExpectOne(p.Client, kit.TCP(at[i%3]), 5, kit.Clients(pods...)...)
				s.Expect(p.Client, kit.TCP(at[(i+1)%3]), kit.Only(server).Times(5))
				s.Expect(p.Client, kit.TCP(at[(i+2)%3]), kit.Only(server).Times(5))
			}
		},
	}
}
