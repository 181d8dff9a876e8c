package behaviours

import (
	"net/netip"
	"time"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func rulesFlushedRecreated() kit.Behaviour {
	return kit.Behaviour{
		ID: "rules-flushed-recreated", Level: kit.Should, Profile: kit.ProfileLifecycle,
		Says:     "Rules that somebody else removes from a node come back by themselves, those of a ClusterIP, of node ports, of the address of a load balancer in VIP mode and of an external IP, for TCP and UDP, with policies, session affinity and source ranges; and health check node ports answer as before.",
		Promises: []promise.Promise{promise.RulesWatched, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/pull/81517", "https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/util/iptables/iptables.go"},
		Needs:    []kit.Need{kit.NeedNodes, kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			s.Allow(time.Minute) // who looks for that looks every half a minute
			svc, addrs := atAll(s)
			n := s.Nodes[2]
			a, b := s.Nodes[0].A, s.Nodes[1].A
			svc.Endpoints(a.Ready(), b.Ready())
			ways, demand := waysBy(s, n, svc, addrs), besideWhatIsFlushed(s, n)
			s.Each(ways, kit.Pods(a, b))
			demand()
			if !s.Flush(n) {
				s.Skip("it is not known how this dataplane's rules are removed from a node")
			}
			s.Each(ways, kit.Pods(a, b))
			demand()
		},
	}
}

// besideWhatIsFlushed are Services whose rules say more than where to: under policy Local, with affinity, and, where the
// dataplane has such, with source ranges. What is demanded holds for what comes to one node.
func besideWhatIsFlushed(s *kit.Spec, n *kit.Node) (demand func()) {
	local, at := atVIP(s, kit.ExternalLocal)
	local.Endpoints(n.A.Ready(), s.Nodes[1].A.Ready())
	sticky, stickyAt := atVIP(s, kit.Sticky(600))
	sticky.Endpoints(kit.ReadyAll(s.EightPods())...)
	host, out := s.HostBeyond(n), s.HostBeyond(n)
	var ranged *kit.Service
	var rangedAt netip.Addr
	if s.Has(kit.FeatureSourceRanges) {
		ranged, rangedAt = atVIP(s, kit.SourceRanges(kit.Alone(host.Addr(s.Family))))
		ranged.Endpoints(n.A.Ready())
	}
	return func() {
		s.Each(local.WaysTo(at, host), kit.Pods(n.A).FromItself())
		s.ExpectHTTP(s.Outside(), local.HealthPort(n), "/", kit.Status(200))
		s.EachOne(append(sticky.Ways(n.B.Client), sticky.WaysTo(stickyAt, host)...), kit.Clients(s.EightPods()...)...)
		if ranged != nil {
			s.Each(ranged.WaysTo(rangedAt, host), kit.Pods(n.A))
			s.Each(ranged.WaysTo(rangedAt, out), kit.Unreachable())
		}
	}
}
