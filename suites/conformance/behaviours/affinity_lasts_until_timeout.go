package behaviours

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityLastsUntilTimeout() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-lasts-until-timeout", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A client that comes back before the timeout since its first connection still has its endpoint, after seconds and after more than a minute, where the timeout was a shorter one before any came, at node ports, the address of a load balancer and an external IP too, and not all clients have one and the same.",
		Promises: []promise.Promise{promise.AffinityTimeout, promise.Affinity, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Waits:    true,
		Run: func(s *kit.Spec) {
			const timeout, gap = 10 * time.Second, 5 * time.Second
			brief := kit.Sticky(int32(timeout / time.Second))
			svc, pods := s.Service(brief, kit.NodePorts, kit.Both), s.EightPods()
			vip, at := atVIP(s, brief) // whose clients have come to no other of its addresses
			briefly := []*kit.Service{svc, vip}
			addressed := vip.WaysTo(at, kit.Clients(pods...)...)
			if s.Has(kit.FeatureExternalIPs) {
				external, at := atExternalIP(s, brief)
				briefly, addressed = append(briefly, external), append(addressed, external.WaysTo(at, kit.Clients(pods...)...)...)
			}
			long, addrs := atAll(s, kit.Sticky(2))
			long.Update(kit.Sticky(600))
			for _, v := range append(briefly, long) {
				v.Endpoints(kit.ReadyAll(pods)...)
			}
			clients := append(kit.Clients(pods...), s.NodeClients()...)
			heard(s, s.PodClients()...)
			stays := func(ways []kit.Way, gap, timeout time.Duration) {
				bound, began := make([]kit.Client, len(ways)), make([]time.Time, len(ways))
				for i, way := range ways {
					began[i] = time.Now()
					bound[i] = s.ExpectOne(way.From, way.To, 3, kit.Clients(pods...)...)
				}
				if other := func(c kit.Client) bool { return c.Name != bound[0].Name }; !slices.ContainsFunc(bound, other) { // by chance once in 10^20 runs
					s.Fail("each of %d clients has the same endpoint, of %d", len(ways), len(pods))
				}
				for i, way := range ways {
					s.Pause(gap - time.Since(began[i]))
					if since := time.Since(began[0]); since > timeout-time.Second { // of a client who came by another way before
						s.Inconclusive("the harness was too slow: %s since the first connection", since)
					}
					s.Expect(way.From, way.To, kit.Only(bound[i]).Times(3))
				}
			}
			inside := func(v *kit.Service) []kit.Way {
				return append(v.Ways(clients...), v.NodePortWays(s.Nodes[3], s.Outside())...)
			}
			stays(append(inside(svc), addressed...), gap, timeout)
			stays(append(inside(long), waysToAll(long, addrs, kit.Clients(pods...)...)...), 70*time.Second, 600*time.Second) // longer than what is remembered of flows
		},
	}
}
