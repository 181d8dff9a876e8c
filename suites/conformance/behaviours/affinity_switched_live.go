package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySwitchedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-switched-live", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A change of sessionAffinity is followed: without it connections spread again, and with it anew they stay.",
		Promises: []promise.Promise{promise.Affinity, promise.Synchronized, promise.EveryNode},
		Upstream: "[sig-network] Services should be able to switch session affinity for service with type clusterIP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.NodePorts, kit.Sticky(600))
			pods := []*kit.Pod{s.Nodes[0].A, s.Nodes[1].A, s.Nodes[2].A}
			svc.Endpoints(kit.ReadyAll(pods)...)
			inside, outside := kit.TCP(svc.ClusterIP()), kit.TCP(svc.NodePort(s.Nodes[0]))
			s.ExpectOne(s.Nodes[0].B.Client, inside, 40, kit.Clients(pods...)...)
			s.ExpectOne(s.Outside(), outside, 40, kit.Clients(pods...)...)
			svc.Update(kit.NotSticky)
			s.Expect(s.Nodes[0].B.Client, inside, kit.Pods(pods...))
			s.Expect(s.Outside(), outside, kit.Pods(pods...))
			svc.Update(kit.Sticky(600))
			s.ExpectOne(s.Nodes[0].B.Client, inside, 40, kit.Clients(pods...)...)
			s.ExpectOne(s.Outside(), outside, 40, kit.Clients(pods...)...)
		},
	}
}
