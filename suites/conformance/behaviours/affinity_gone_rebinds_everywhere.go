package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityGoneRebindsEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-gone-rebinds-everywhere", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client whose endpoint is gone, or not ready, or terminates while another is ready, gets that one, and one that is at another port there, by TCP and UDP, at the ClusterIP, a node port, the address of a load balancer in VIP mode and an external IP, from inside and outside.",
		Promises: []promise.Promise{promise.Affinity, promise.Synchronized, promise.Ready, promise.SomeTerminating, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s, kit.Sticky(600))
			n := s.Nodes
			pods := []*kit.Pod{n[0].A, n[1].A, n[2].A}
			inside := []kit.Client{n[0].B.Client, n[3].B.Client, n[3].Client}
			ways := append(svc.Ways(inside...), waysToAll(svc, addrs, append(inside, s.HostBeyond(n[3]))...)...)
			ways = append(ways, svc.NodePortWays(n[3], s.Outside(), n[3].B.Client, n[3].Client)...)
			for _, left := range [][]kit.Endpoint{nil, each(pods, (*kit.Pod).NotReady), each(pods, (*kit.Pod).Draining)} {
				svc.Endpoints(kit.ReadyAll(pods)...)
				for _, way := range ways {
					s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
				}
				svc.Endpoints(append(left, n[3].A.Ready())...)
				s.Each(ways, kit.Pods(n[3].A))
			}
			svc.SliceAt("a", kit.OtherPort, n[3].A.Ready()) // of whom the clients are
			s.Each(ways, kit.Pods(n[3].A).ServedAt(kit.OtherPort))
		},
	}
}

// each are pods in a state.
func each(pods []*kit.Pod, state func(*kit.Pod) kit.Endpoint) (out []kit.Endpoint) {
	for _, p := range pods {
		out = append(out, state(p))
	}
	return out
}
