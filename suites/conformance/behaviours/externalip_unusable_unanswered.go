package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPUnusableUnanswered() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-unusable-unanswered", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "Endpoints that are not ready, or end and do not serve, are not reached by an external IP even if no other is left, of whatever kind, under each policy, by TCP and UDP, from inside and outside.",
		Promises: []promise.Promise{promise.Ready, promise.TerminatingNotServing},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			addr := s.FreeAddr()
			svc := s.Service(kit.NodePorts, kit.ExternalIPs(addr), kit.Both)
			ways := svc.WaysTo(addr, s.Everyone()...)
			for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
				svc.Update(policy)
				for _, state := range []func(kit.Endpoint) kit.Endpoint{kit.Endpoint.Unready, kit.Endpoint.Ended} {
					svc.AllKinds(state)
					s.Each(ways, kit.Unreachable())
				}
			}
		},
	}
}
