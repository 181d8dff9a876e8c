package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityPerServicePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-per-service-port", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Affinity is kept for each port of a Service alone: a client may have another endpoint at another port.",
		Promises: []promise.Promise{promise.AffinityPerPort},
		Features: []kit.Feature{kit.FeatureAffinityPerPort},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("other", corev1.ProtocolTCP, 81)))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			differ := false
			for _, c := range kit.Clients(pods...) { // by chance all are the same once in 10^7 runs
				first := s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...)
				second := s.ExpectOne(c, kit.TCP(svc.ClusterIP("other")), 5, kit.Clients(pods...)...)
				s.Expect(c, kit.TCP(svc.ClusterIP()), kit.Only(first).Times(5))
				differ = differ || first.Name != second.Name
			}
			if !differ {
				s.Fail("each of %d clients has the same endpoint at both ports, of %d", len(pods), len(pods))
			}
		},
	}
}
