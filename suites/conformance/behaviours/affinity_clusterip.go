package behaviours

import (
	"fmt"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityClusterIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-clusterip", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "With sessionAffinity=ClientIP all connections, and all datagrams, of a pod to a ClusterIP go to one endpoint, of whatever kind, be it one of 72, and with the longest timeout there is.",
		Promises: []promise.Promise{promise.Affinity, promise.AffinityTimeout},
		Upstream: "[sig-network] Services should have session affinity work for service with type clusterIP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(86400), kit.Both)
			svc.Kinds()
			s.EachOne(svc.Ways(s.PodClients()...), s.OfKinds()...)
			one, two, client := s.Service(kit.Sticky(600)), s.Service(kit.Sticky(600)), s.Nodes[3].A.Client
			one.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			two.Endpoints(s.Nodes[2].A.Ready(), s.Nodes[2].B.Ready())
			first := s.ExpectOne(client, kit.TCP(one.ClusterIP()), 20, s.Nodes[0].A.Client, s.Nodes[1].A.Client)
			s.ExpectOne(client, kit.TCP(two.ClusterIP()), 20, s.Nodes[2].A.Client, s.Nodes[2].B.Client)
			s.Expect(client, kit.TCP(one.ClusterIP()), kit.Only(first).Times(20))
			many, pods := s.Service(kit.Sticky(600), kit.Both), s.EightPods()
			for _, number := range s.Serve(9200, 9, pods...) {
				many.SliceAt(fmt.Sprint(number), int32(number), kit.ReadyAll(pods)...)
			}
			s.EachOne(many.Ways(append(s.PodClients(), s.NodeClients()...)...), kit.Clients(pods...)...)
		},
	}
}
