package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sliceOfMany() kit.Behaviour {
	return kit.Behaviour{
		ID: "slice-of-many", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Of a slice of a thousand endpoints, of which the last are ready, these are reached, and no others, also at its node ports, and again when the others were ready for a while.",
		Promises: []promise.Promise{promise.Slices, promise.ReadyEndpointsInside, promise.ClusterIP, promise.NodePort},
		Run: func(s *kit.Spec) {
			nobodys := netip.MustParsePrefix(map[corev1.IPFamily]string{corev1.IPv4Protocol: "100.64.0.0/16", corev1.IPv6Protocol: "2001:db8:53:2::/64"}[s.Family])
			svc, n, all := s.Service(kit.NodePorts, kit.Both), s.Nodes, []kit.Endpoint{}
			for i := range 998 {
				all = append(all, kit.Address(kit.Within(nobodys, i+1)).Unready())
			}
			svc.Endpoints(append(all, n[0].A.Ready(), n[1].A.Ready())...)
			ways := append(svc.Ways(n[0].B.Client, n[3].Client), svc.NodePortWays(n[2], s.Outside())...)
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
			for i := range all {
				all[i] = kit.Address(kit.Within(nobodys, i+1))
			}
			svc.Endpoints(append(all, n[0].A.Ready(), n[1].A.Ready())...)
			heard(s, s.PodClients()...)
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
		},
	}
}
