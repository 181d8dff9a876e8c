package behaviours

import (
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinitySurvivesRestart() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-survives-restart", Level: kit.Should, Profile: kit.ProfileAffinity,
		Says:     "Clients stay with their endpoints over a restart of the dataplane's agents: of a ClusterIP, of node ports, of the address of a load balancer in VIP mode and of an external IP, by TCP and UDP, and at the ClusterIP no longer than the timeout.",
		Promises: []promise.Promise{promise.WithoutAgents, promise.Ingress, promise.ExternalIPs, promise.AffinityAtMost},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/proxy/nftables/proxier.go"},
		Features: []kit.Feature{kit.FeatureAffinitySurvives},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			const timeout = 2 * time.Second
			svc, addrs := atAll(s, kit.Sticky(600))
			pods := s.EightPods()
			svc.Endpoints(kit.ReadyAll(pods)...)
			ways := append(svc.Ways(kit.Clients(pods...)...), waysToAll(svc, addrs, kit.Clients(pods...)...)...)
			for _, n := range s.FirstNodes() {
				ways = append(ways, svc.NodePortWays(n, s.Outside())...)
			}
			bound := make([]kit.Client, len(ways))
			for i, way := range ways {
				bound[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
			}
			brief := bindBriefly(s, timeout, pods)
			s.WithoutAgents(func() {})
			s.ExpectFollowing()
			s.Pause(timeout + time.Second)
			brief()
			for i, way := range ways {
				s.Expect(way.From, way.To, kit.Only(bound[i]).Times(5))
			}
		},
	}
}

// bindBriefly gives a pod an endpoint of each of eight Services, for as long as a timeout. It returns what demands, when
// that is over, that not all of them are the same again.
func bindBriefly(s *kit.Spec, timeout time.Duration, pods []*kit.Pod) (over func()) {
	var ways []kit.Way
	for range 8 {
		svc := s.Service(kit.Sticky(int32(timeout / time.Second)))
		svc.Endpoints(kit.ReadyAll(pods)...)
		ways = append(ways, svc.Ways(s.Nodes[0].B.Client)...)
	}
	had := make([]kit.Client, len(ways))
	for i, way := range ways {
		had[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
	}
	return func() {
		stayed := 0
		for i, way := range ways { // by chance all are the same again once in 8^8 runs
			if s.ExpectOne(way.From, way.To, 1, kit.Clients(pods...)...).Name == had[i].Name {
				stayed++
			}
		}
		if stayed == len(ways) {
			s.Fail("more than %s after its last connection %s has its endpoint at each of %d Services still, of %d endpoints", timeout, ways[0].From.Name, stayed, len(pods))
		}
	}
}
