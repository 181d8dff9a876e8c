package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func manyServices() kit.Behaviour {
	return kit.Behaviour{
		ID: "many-services", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Each of 260 Services, of which every fourth has node ports, is reached by its own endpoint, by TCP and UDP, and those that are left when half of them go again as before.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported, promise.Synchronized},
		Long:     true,
		Run: func(s *kit.Spec) {
			const of = 260
			pods, clients := s.EightPods(), s.PodClients()
			services, ways := make([]*kit.Service, of), make([][]kit.Way, of)
			for i := range services {
				as := []func(*corev1.Service){kit.Both}
				if i%4 == 0 {
					as = append(as, kit.NodePorts)
				}
				services[i] = s.Service(as...)
				services[i].Endpoints(pods[i%len(pods)].Ready())
				ways[i] = services[i].Ways(clients[i/len(pods)%len(clients)])
				if i%4 == 0 {
					ways[i] = append(ways[i], services[i].NodePortWays(s.Nodes[3], s.Outside())...)
				}
			}
			served := func(first int) {
				for at, p := range pods {
					var its []kit.Way
					for i := first + at; i < len(ways); i += len(pods) {
						its = append(its, ways[i]...)
					}
					s.Each(its, kit.Pods(p).Times(4))
				}
			}
			served(0)
			half := of / 2 / len(pods) * len(pods) // the first is of the first pod again
			for i, svc := range services[:half] {
				svc.Delete()
				if i >= half-len(pods) {
					s.Each(ways[i][:2], kit.Unreachable()) // at its ClusterIP
				}
			}
			served(half)
		},
	}
}
