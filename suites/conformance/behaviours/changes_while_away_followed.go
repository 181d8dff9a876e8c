package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func changesWhileAwayFollowed() kit.Behaviour {
	return kit.Behaviour{
		ID: "changes-while-away-followed", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "What changed while the agents were away is followed when they are back: other endpoints, of which some are not ready, the first and the last of a Service, another target port, a Service that is gone, made anew, or new, with endpoints of every kind or such as only terminate, endpoints that are ready again or no more, those of clients with affinity, session affinity that came or went, and a hundred and fifty Services more, by TCP and UDP; an endpoint that came reaches itself.",
		Promises: []promise.Promise{promise.Synchronized, promise.Hairpin},
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			moved, gone, emptied, filled := s.Service(kit.NodePorts, kit.Both), s.Service(kit.NodePorts, kit.Both), s.Service(kit.NodePorts, kit.Both), s.Service(kit.NodePorts, kit.Both)
			free, again, aimed := s.Service(kit.Sticky(600), kit.Both), s.Service(kit.Both), s.Service(kit.NodePorts, kit.Both)
			a, b, client, via := s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].B.Client, s.Nodes[2]
			at := func(svc *kit.Service) []kit.Way {
				return append(svc.Ways(client), svc.NodePortWays(via, s.Outside())...)
			}
			for _, svc := range []*kit.Service{moved, gone, emptied, aimed} {
				svc.Endpoints(a.Ready())
				s.Each(at(svc), kit.Pods(a))
			}
			filled.Endpoints()
			s.Each(at(filled), kit.Unreachable())
			free.Endpoints(a.Ready(), b.Ready())
			s.EachOne(free.Ways(client), a.Client, b.Client)
			again.Endpoints(a.Ready())
			s.Each(again.Ways(client), kit.Pods(a))
			returns, returned := returnWhileAway(s, at, a, b)
			silent := append(append(at(gone), at(emptied)...), again.Ways(client)...)
			var fresh, sticky, drained *kit.Service
			var kinds kit.Want
			var more []kit.Way
			s.WithoutAgents(func() {
				moved.Endpoints(a.NotReady(), b.Ready(), s.Nodes[2].A.Ending())
				emptied.Endpoints()
				aimed.SliceAt("a", kit.OtherPort, a.Ready())
				filled.Endpoints(b.Ready())
				free.Update(kit.NotSticky)
				fresh = s.Service(kit.NodePorts, kit.Both)
				kinds = fresh.Kinds() // three slices
				sticky = s.Service(kit.NodePorts, kit.Sticky(600), kit.Both)
				sticky.Endpoints(a.Ready(), b.Ready())
				drained = s.Service(kit.NodePorts, kit.Both)
				drained.Endpoints(a.Draining())
				for range 150 {
					svc := s.Service()
					svc.Endpoints(a.Ready())
					more = append(more, svc.Ways(client)...)
				}
				was := again.ClusterIP()
				again.DeleteAlone()
				again.Make()
				if again.ClusterIP() == was {
					s.Inconclusive("the API gave the Service the address again that it had before")
				}
				returns()
				gone.Delete() // when no other is made that might get its addresses
			})
			s.Each(more, kit.Pods(a).Times(4))
			s.Each(append(append(at(moved), at(filled)...), filled.Ways(b.Client)...), kit.Pods(b)) // to itself too
			s.Each(at(aimed), kit.Pods(a).ServedAt(kit.OtherPort))
			s.Each(at(fresh), kinds)
			s.EachOne(at(sticky), a.Client, b.Client)
			s.Each(free.Ways(client), kit.Pods(a, b))
			s.Each(again.Ways(client), kit.Pods(a))
			if s.Has(kit.TerminatingFallback) {
				s.Each(at(drained), kit.Pods(a))
			}
			returned()
			s.Each(silent, kit.Unreachable())
		},
	}
}

// returnWhileAway are Services of which an endpoint that had clients, and then was in another state, is ready again while
// the agents are away; of another it begins to end, and of one with affinity the endpoint of all its clients goes.
func returnWhileAway(s *kit.Spec, at func(*kit.Service) []kit.Way, a, b *kit.Pod) (change, demand func()) {
	both := func(as ...func(*corev1.Service)) *kit.Service {
		svc := s.Service(append(as, kit.NodePorts, kit.Both)...)
		svc.Endpoints(a.Ready(), b.Ready())
		return svc
	}
	var back []*kit.Service
	for _, state := range []func(*kit.Pod) kit.Endpoint{(*kit.Pod).NotReady, (*kit.Pod).Draining, (*kit.Pod).Ending} {
		svc := both()
		s.Each(at(svc), kit.Pods(a, b))
		svc.Endpoints(state(a), b.Ready())
		s.Each(at(svc), kit.Pods(b))
		back = append(back, svc)
	}
	left, bound := both(), s.Service(kit.NodePorts, kit.Both, kit.Sticky(600))
	s.Each(at(left), kit.Pods(a, b))
	bound.Endpoints(a.Ready())
	s.Each(at(bound), kit.Pods(a))
	change = func() {
		for _, svc := range back {
			svc.Endpoints(a.Ready(), b.Ready())
		}
		left.Endpoints(a.Draining(), b.Ready())
		bound.Endpoints(b.Ready())
	}
	return change, func() {
		for _, svc := range back {
			s.Each(at(svc), kit.Pods(a, b))
		}
		s.Each(append(at(left), at(bound)...), kit.Pods(b))
	}
}
