package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyNoLocalDropped() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-no-local-dropped", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local what arrives from outside at a node without an endpoint is dropped while others have some, by TCP and UDP, which each has endpoints of its own.",
		Promises: []promise.Promise{promise.ExternalLocalDrops},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Both), s.FreeAddr()
			to := svc.WaysTo(vip, s.HostBeyond(s.Nodes[3]))
			svc.Endpoints(s.Nodes[3].A.Ready(), s.Nodes[1].A.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			s.Each(to, kit.Pods(s.Nodes[3].A))
			want := svc.Kinds()
			s.Each(to, kit.Dropped())
			s.Each(svc.WaysTo(vip, s.Nodes[3].B.Client), want)
			ports, its := atVIP(s, kit.ExternalLocal)
			apartLocally(s, ports, func(n *kit.Node) []kit.Way { return ports.WaysTo(its, s.HostBeyond(n)) }, kit.Dropped())
		},
	}
}
