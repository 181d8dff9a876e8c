package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipIPModeFlipLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-ipmode-flip-live", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "A change of ipMode is followed in both directions while the Service lives, to pods and nodes, by TCP and UDP.",
		Promises: []promise.Promise{promise.IPMode, promise.Synchronized},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Features: []kit.Feature{kit.FeatureIPMode},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			clients := []kit.Client{s.Nodes[1].B.Client, s.Nodes[3].Client}
			ways := svc.WaysTo(vip, clients...)
			for range 2 {
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				s.Each(ways, kit.Pods(s.Nodes[0].A))
				svc.Ingress(corev1.LoadBalancerIPModeProxy, vip)
				s.Each(ways, kit.Unreachable())
				s.Each(svc.Ways(clients...), kit.Pods(s.Nodes[0].A))
			}
		},
	}
}
