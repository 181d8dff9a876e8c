package behaviours

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortSameSourcePort() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-same-source-port", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Hosts outside that dial a node port from the same source ports at once are each answered, by TCP and UDP, and so is one that dials another Service's too, by TCP, where their connections come to one endpoint, or, where nodes masquerade, one host's by several nodes; and also where the source port is the node port's number, of a pod's connection to a ClusterIP too.",
		Promises: []promise.Promise{promise.NodePort, promise.AnyNode, promise.TCP, promise.UDP, promise.ClusterIP},
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			svc.Endpoints(n[0].A.Ready())
			other, hosts := s.Service(kit.NodePorts), s.HostsBeyond(n[1], n[1])
			other.Endpoints(n[0].A.Ready())
			ways := append(svc.NodePortWays(n[1], hosts...), other.NodePortWays(n[1], hosts[0])...)
			var byNodes []kit.Way             // of one host, by TCP: a port is one socket's for datagrams
			if s.Has(kit.FeatureMasquerade) { // or else these are one connection to the endpoint
				for _, node := range s.FirstNodes()[1:] {
					byNodes = append(byNodes, svc.NodePortWays(node, s.Outside())[0])
				}
			}
			inside := other.Ways(n[1].B.Client)
			s.Each(slices.Concat(ways, byNodes, inside), kit.Pods(n[0].A))
			var conns []*remote.Conns
			for _, way := range ways {
				conns = append(conns, s.Open(way.From, way.To, remote.Batch{Attempts: 100, SourcePort: 22_000, SourcePorts: 100}))
			}
			for i, at := range []netip.AddrPort{svc.NodePort(n[1]), svc.NodePort(n[1], "dns")} {
				way := svc.NodePortWays(n[1], hosts[0])[i] // by TCP, and by UDP
				ways, conns = append(ways, way), append(conns, s.Open(way.From, way.To, remote.Batch{Attempts: 1, SourcePort: at.Port()}))
			}
			for _, way := range byNodes {
				ways, conns = append(ways, way), append(conns, s.Open(way.From, way.To, remote.Batch{Attempts: 40, SourcePort: 22_500, SourcePorts: 40}))
			}
			ways, conns = append(ways, inside...), append(conns, s.Open(inside[0].From, inside[0].To, remote.Batch{Attempts: 1, SourcePort: svc.NodePort(n[1]).Port()}))
			for range 3 {
				for i, way := range ways {
					s.All(way.From, way.To, s.Ask(way.From, way.To, conns[i], 0, 16), n[0].A.Client)
				}
			}
		},
	}
}
