package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipIPModeProxyNotHandled() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-ipmode-proxy-not-handled", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer in mode Proxy is not answered by endpoints: its traffic goes to the load balancer.",
		Promises: []promise.Promise{promise.IPMode},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Features: []kit.Feature{kit.FeatureIPMode},
		Run: func(s *kit.Spec) {
			svc, vip, proxy := s.Service(kit.LoadBalanced), s.FreeAddr(), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			svc.IngressEntries(kit.AtIP(corev1.LoadBalancerIPModeProxy, proxy), kit.AtIP(corev1.LoadBalancerIPModeVIP, vip))
			for _, c := range []kit.Client{s.Nodes[0].B.Client, s.Nodes[1].Client} {
				s.Expect(c, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
				s.Expect(c, kit.TCP(svc.At(proxy)), kit.Unreachable())
			}
		},
	}
}
