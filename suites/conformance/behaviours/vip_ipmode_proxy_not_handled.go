package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipIPModeProxyNotHandled() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-ipmode-proxy-not-handled", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "The address of a load balancer in mode Proxy is not answered by endpoints, to pods and nodes, by TCP and UDP: its traffic goes to the load balancer.",
		Promises: []promise.Promise{promise.IPMode},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Features: []kit.Feature{kit.FeatureIPMode},
		Run: func(s *kit.Spec) {
			proxyNotHandled(s, s.Nodes[0].B.Client, s.Nodes[1].Client)
		},
	}
}

// proxyNotHandled: of two addresses of a Service that in mode VIP is answered, that in mode Proxy is not.
func proxyNotHandled(s *kit.Spec, clients ...kit.Client) {
	svc, vip, proxy := s.Service(kit.LoadBalanced, kit.Both), s.FreeAddr(), s.FreeAddr()
	svc.Endpoints(s.Nodes[0].A.Ready())
	svc.IngressEntries(kit.AtIP(corev1.LoadBalancerIPModeProxy, proxy), kit.AtIP(corev1.LoadBalancerIPModeVIP, vip))
	s.Each(svc.WaysTo(vip, clients...), kit.Pods(s.Nodes[0].A))
	s.Each(svc.WaysTo(proxy, clients...), kit.Unreachable())
}
