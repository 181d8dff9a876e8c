package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityFromNode() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-from-node", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a client in a node's own network to a ClusterIP go to one endpoint, where no timeout is given.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(func(o *corev1.Service) { o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, kit.Both)
			svc.Kinds()
			s.EachOne(svc.Ways(s.NodeClients()...), s.OfKinds()...)
		},
	}
}
