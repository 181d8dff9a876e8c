package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipHostnameIgnored() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-hostname-ignored", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "An entry of the status with a name alone is no address: those beside it are served, with a name or with ports too, twice, or after one of a family that the Service has not, and nothing else is, be it the loadBalancerIP that was asked for.",
		Promises: []promise.Promise{promise.Ingress, promise.IngressHostname},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			vip, also, asked := s.FreeAddr(), s.FreeAddr(), s.FreeAddr()
			svc := s.Service(kit.LoadBalanced, func(o *corev1.Service) { o.Spec.LoadBalancerIP = asked.String() })
			svc.Endpoints(s.Nodes[0].A.Ready())
			name := kit.AtName("balancer.example.com")
			both := kit.AtIP(corev1.LoadBalancerIPModeVIP, also)
			both.Hostname, both.Ports = name.Hostname, []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}
			foreign := map[corev1.IPFamily]netip.Addr{corev1.IPv4Protocol: netip.MustParseAddr("2001:db8:53::9"), corev1.IPv6Protocol: netip.MustParseAddr("203.0.113.209")}[s.Family]
			at := kit.AtIP(corev1.LoadBalancerIPModeVIP, vip)
			svc.IngressEntries(name, kit.AtIP(corev1.LoadBalancerIPModeVIP, foreign), at, at, both)
			client := s.Nodes[1].B.Client
			s.Expect(client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			s.Expect(client, kit.TCP(svc.At(also)), kit.Pods(s.Nodes[0].A))
			s.Expect(client, kit.TCP(svc.At(asked)), kit.Unreachable())
			svc.IngressEntries(name)
			s.Expect(client, kit.TCP(svc.At(vip)), kit.Unreachable())
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A))
		},
	}
}
