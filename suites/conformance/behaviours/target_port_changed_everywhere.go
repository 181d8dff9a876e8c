package behaviours

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func targetPortChangedEverywhere() kit.Behaviour {
	return kit.Behaviour{
		ID: "target-port-changed-everywhere", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "When the target port of the endpoints changes, connections and datagrams go to the new one alone, be it the same for both or not, at the ClusterIP, node ports, the address of a load balancer in VIP mode and an external IP, from inside and outside.",
		Promises: []promise.Promise{promise.AnyTargetPort, promise.Ingress, promise.EveryNode, promise.Synchronized, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			n := s.Nodes
			inside := []kit.Client{n[0].B.Client, n[3].B.Client, n[3].Client}
			ways := append(svc.Ways(inside...), waysToAll(svc, addrs, append(inside, s.HostBeyond(n[3]))...)...)
			ways = append(ways, svc.NodePortWays(n[3], s.Outside(), n[3].B.Client)...)
			for _, target := range []uint16{kit.PodPort, kit.OtherPort, kit.PodPort} {
				svc.SliceAt("a", int32(target), n[0].A.Ready(), n[1].A.Ready())
				s.Each(ways, kit.Pods(n[0].A, n[1].A).ServedAt(target))
			}
			svc.Slice("a", []discoveryv1.EndpointPort{
				kit.SlicePort("http", corev1.ProtocolTCP, kit.OtherPort), kit.SlicePort("dns", corev1.ProtocolUDP, kit.PodPort),
			}, n[0].A.Ready(), n[1].A.Ready())
			s.Each(ofPort(ways, 0), kit.Pods(n[0].A, n[1].A).ServedAt(kit.OtherPort))
			s.Each(ofPort(ways, 1), kit.Pods(n[0].A, n[1].A).ServedAt(kit.PodPort))
		},
	}
}
