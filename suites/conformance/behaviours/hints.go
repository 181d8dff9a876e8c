package behaviours

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// near gives a Service endpoints with hints, and says who is to answer what is handled by each of some
// nodes, one of each zone.
type near func(svc *kit.Service, n []*kit.Node) [][]*kit.Pod

// zonal hints for zones, in two slices, one endpoint for two of them and for none of its own.
func zonal(svc *kit.Service, n []*kit.Node) [][]*kit.Pod {
	svc.Endpoints(
		n[0].A.Ready().ForZones(n[0].Zone, nobodysZone(n, n[1].Zone)),
		n[1].A.Ready().ForZones(n[1].Zone),
	)
	svc.Slice("b", nil, n[1].B.Ready().ForZones("no-zone", "no"+n[1].Zone, "nor-this", n[0].Zone, n[2].Zone))
	return [][]*kit.Pod{{n[0].A, n[1].B}, {n[1].A}, {n[1].B}}
}

// nobodysZone is one that no node is of, whose name begins with another's.
func nobodysZone(n []*kit.Node, like string) string {
	for zone := like + "0"; ; zone += "0" {
		if !slices.ContainsFunc(n, func(n *kit.Node) bool { return n.Zone == zone }) {
			return zone
		}
	}
}

// nodal hints for nodes: each endpoint for its own.
func nodal(svc *kit.Service, n []*kit.Node) [][]*kit.Pod {
	svc.Endpoints(n[0].A.Ready().ForNodes(n[0].Name), n[1].A.Ready().ForNodes(n[1].Name, n[0].Name+"0", "0"+n[0].Name), n[2].A.Ready().ForNodes("elsewhere", n[2].Name))
	return [][]*kit.Pod{{n[0].A}, {n[1].A}, {n[2].A}}
}

// nowhere hints for the zones and nodes of two alone, and nobody is left out: the third is answered by
// both.
func nowhere(svc *kit.Service, n []*kit.Node) [][]*kit.Pod {
	svc.Endpoints(n[0].A.Ready().ForZones(n[0].Zone).ForNodes(n[0].Name), n[1].A.Ready().ForZones(n[1].Zone).ForNodes(n[1].Name))
	return [][]*kit.Pod{2: {n[0].A, n[1].A}}
}

// hinted: what each node handles of a Service is answered by those alone that are near to it, by every way, and with
// session affinity each way by one of them.
func hinted(s *kit.Spec, of near, made func(affinity func(*corev1.Service)) (svc *kit.Service, ways func(*kit.Node) []kit.Way)) {
	n := s.Zoned()
	for i, affinity := range affinities() {
		svc, ways := made(affinity)
		for at, servers := range of(svc, n) {
			switch {
			case servers == nil:
			case i == 0:
				s.Each(ways(n[at]), kit.Pods(servers...))
			default:
				s.EachOne(ways(n[at]), kit.Clients(servers...)...)
			}
		}
	}
}

// hintedByUDP is that of datagrams of a node and its pods to a ClusterIP.
func hintedByUDP(distribution string, of near) func(*kit.Spec) {
	return func(s *kit.Spec) {
		hinted(s, of, func(affinity func(*corev1.Service)) (*kit.Service, func(*kit.Node) []kit.Way) {
			svc := s.Service(kit.Distribution(distribution), affinity, kit.Ports(kit.Port("dns", corev1.ProtocolUDP, 53)))
			return svc, func(n *kit.Node) []kit.Way { return svc.Ways(n.B.Client, n.Client) }
		})
	}
}

// hintedAtNodePort is that of what comes to the ports of a node, from outside, from itself and from a
// pod on it. What others in the cluster send there may be handled by their own node.
func hintedAtNodePort(distribution string, of near) func(*kit.Spec) {
	return func(s *kit.Spec) {
		hinted(s, of, func(affinity func(*corev1.Service)) (*kit.Service, func(*kit.Node) []kit.Way) {
			svc := s.Service(kit.Distribution(distribution), affinity, kit.NodePorts, kit.Both)
			return svc, func(n *kit.Node) []kit.Way { return svc.NodePortWays(n, s.Outside(), n.Client, n.B.Client) }
		})
	}
}

// hintedAt is that of what comes to a front, from beyond a node, from itself and from a pod on it.
func hintedAt(f front, distribution string, of near) func(*kit.Spec) {
	return func(s *kit.Spec) {
		hosts := map[*kit.Node]kit.Client{}
		hinted(s, of, func(affinity func(*corev1.Service)) (*kit.Service, func(*kit.Node) []kit.Way) {
			svc, addr := f(s, kit.Distribution(distribution), affinity)
			return svc, func(n *kit.Node) []kit.Way {
				if _, has := hosts[n]; !has {
					hosts[n] = s.HostBeyond(n)
				}
				return svc.WaysTo(addr, hosts[n], n.Client, n.B.Client)
			}
		})
	}
}
