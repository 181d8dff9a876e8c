package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func externalIPLocalPolicyWithoutNodePorts() kit.Behaviour {
	return kit.Behaviour{
		ID: "externalip-local-policy-without-node-ports", Level: kit.Must, Profile: kit.ProfileExternalIPs,
		Says:     "externalIPs of a Service of type ClusterIP obey its externalTrafficPolicy=Local: hosts outside reach the endpoints of the node alone, with the source they had, pods and nodes all, by TCP and UDP.",
		Promises: []promise.Promise{promise.ExternalPolicy, promise.ExternalLocal, promise.ExternalFromInside},
		Writes:   "1.29",
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/119150"},
		Features: []kit.Feature{kit.FeatureExternalIPs},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addr := atExternalIP(s, kit.ExternalLocal)
			hosts := beyond(s)
			s.Each(svc.WaysTo(addr, s.Inside()...), svc.Kinds())
			for i, server := range s.OfKinds() {
				s.Each(svc.WaysTo(addr, hosts[i]), kit.Only(server).FromItself())
			}
			s.Each(svc.WaysTo(addr, hosts[3]), kit.Dropped())
		},
	}
}
