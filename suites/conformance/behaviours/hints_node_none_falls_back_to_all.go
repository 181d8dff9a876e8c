package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsNodeNoneFallsBackToAll() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-node-none-falls-back-to-all", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "A client on a node that no ready endpoint is hinted for gets all of them if they have no zone hints.",
		Promises: []promise.Promise{promise.RemoteIfNot},
		Upstream: "[sig-network] Traffic Distribution should route traffic to an endpoint on the same node when using PreferSameNode and fall back when the endpoint becomes unavailable",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Distribution(corev1.ServiceTrafficDistributionPreferSameNode))
			a, b, c := s.Nodes[0], s.Nodes[1], s.Nodes[2]
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(a.A.Ready().ForNodes(a.Name), b.A.Ready().ForNodes(b.Name))
			s.Expect(c.B.Client, at, kit.Pods(a.A, b.A))
			svc.Endpoints(a.A.NotReady().ForNodes(a.Name), b.A.Ready().ForNodes(b.Name))
			s.Expect(a.B.Client, at, kit.Pods(b.A))
		},
	}
}
