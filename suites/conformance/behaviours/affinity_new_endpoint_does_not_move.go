package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityNewEndpointDoesNotMove() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-new-endpoint-does-not-move", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client stays with its endpoint when others are added.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Sticky(600), kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("new", corev1.ProtocolTCP, 81)))
			one, two := kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort), kit.SlicePort("new", corev1.ProtocolTCP, kit.PodPort)
			few, all := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A}, s.EightPods()
			svc.Slice("a", []discoveryv1.EndpointPort{one}, kit.ReadyAll(few)...)
			bound := map[string]kit.Client{}
			for _, n := range s.FirstNodes() {
				bound[n.Name] = s.ExpectOne(n.B.Client, kit.TCP(svc.ClusterIP()), 10, kit.Clients(few...)...)
			}
			svc.Slice("a", []discoveryv1.EndpointPort{one, two}, kit.ReadyAll(all)...)
			for _, n := range s.FirstNodes() {
				s.ExpectOne(n.B.Client, kit.TCP(svc.ClusterIP("new")), 1, kit.Clients(all...)...) // the node has followed
				s.Expect(n.B.Client, kit.TCP(svc.ClusterIP()), kit.Only(bound[n.Name]))
			}
		},
	}
}
