package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func manyServices() kit.Behaviour {
	return kit.Behaviour{
		ID: "many-services", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Each of 260 Services is reached by its own endpoint, and those that are left when half of them go again as before.",
		Promises: []promise.Promise{promise.ClusterIP, promise.Transported, promise.Synchronized},
		Run: func(s *kit.Spec) {
			const of = 260
			pods, services, ways := s.EightPods(), make([]*kit.Service, of), map[*kit.Pod][]kit.Way{}
			for i := range services {
				services[i] = s.Service()
				services[i].Endpoints(pods[i%len(pods)].Ready())
			}
			clients := s.PodClients()
			for i, svc := range services {
				p := pods[i%len(pods)]
				ways[p] = append(ways[p], svc.Ways(clients[i/len(pods)%len(clients)])...)
			}
			for _, p := range pods {
				s.Each(ways[p], kit.Pods(p).Times(4))
			}
			for _, svc := range services[:of/2] {
				svc.Delete()
			}
			for _, p := range pods {
				n := len(ways[p])
				s.Each(ways[p][:1], kit.Unreachable())
				s.Each(ways[p][n-n/2:], kit.Pods(p).Times(4))
			}
		},
	}
}
