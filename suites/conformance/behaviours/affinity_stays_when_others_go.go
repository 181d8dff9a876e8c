package behaviours

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityStaysWhenOthersGo() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-stays-when-others-go", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client stays with its endpoint when others leave, and when something else of the Service changes, by TCP and UDP.",
		Promises: []promise.Promise{promise.Affinity},
		Run: func(s *kit.Spec) {
			svc, pods := s.Service(kit.Sticky(600), kit.Both), s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			clients := []kit.Client{s.Nodes[0].B.Client, s.Nodes[3].B.Client, s.Nodes[3].Client}
			ways := svc.Ways(clients...)
			bound, free := make([]kit.Client, len(ways)), slices.Clone(pods)
			for i, way := range ways {
				bound[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
				free = slices.DeleteFunc(free, func(p *kit.Pod) bool { return p.Name == bound[i].Name })
			}
			stay := func() {
				later := s.Service()
				later.Endpoints(pods[0].Ready())
				s.Each(later.Ways(clients...), kit.Pods(pods[0])) // the change before it has been heard of on each node
				for i, way := range ways {
					s.Expect(way.From, way.To, kit.Only(bound[i]).Times(20))
				}
			}
			for _, p := range free[:2] { // of eight, of which six at most are bound
				pods = slices.DeleteFunc(pods, func(o *kit.Pod) bool { return o == p })
				svc.Endpoints(kit.ReadyAll(pods)...)
				stay() // by chance, if all are assigned anew, once in 6^6 runs at most
			}
			svc.Update(func(o *corev1.Service) {
				o.Annotations = map[string]string{"example.com/note": "changed"}
				o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81))
			})
			stay()
		},
	}
}
