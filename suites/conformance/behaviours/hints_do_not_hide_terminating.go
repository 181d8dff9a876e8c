package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func hintsDoNotHideTerminating() kit.Behaviour {
	return kit.Behaviour{
		ID: "hints-do-not-hide-terminating", Level: kit.Must, Profile: kit.ProfileTopology,
		Says:     "With no ready endpoint left, a client gets those that terminate and still serve even if they are hinted for other zones and nodes, at the ClusterIP, node ports, the address of a load balancer in VIP mode and an external IP, by TCP and UDP.",
		Promises: []promise.Promise{promise.AllTerminating, promise.RemoteIfNot, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Source:   []string{"KEP-2433", "KEP-4444"},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.TerminatingFallback},
		Needs:    []kit.Need{kit.NeedZones},
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s, kit.Distribution(corev1.ServiceTrafficDistributionPreferSameZone))
			n := s.Zoned()
			svc.Endpoints(
				n[1].A.Draining().ForZones(n[1].Zone).ForNodes(n[1].Name),
				n[2].A.Draining().ForZones(n[2].Zone).ForNodes(n[2].Name),
			)
			ways := append(svc.Ways(n[0].B.Client, n[0].Client), svc.NodePortWays(n[0], s.Outside())...)
			s.Each(append(ways, waysToAll(svc, addrs, n[0].B.Client)...), kit.Pods(n[1].A, n[2].A))
		},
	}
}
