package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipHostnameIgnored() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-hostname-ignored", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "An entry of the status with a name alone is no address: those beside it are served, and nothing else is.",
		Promises: []promise.Promise{promise.Ingress, promise.IngressHostname},
		Writes:   kit.SinceClass,
		Source:   []string{"KEP-1860"},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced), s.FreeAddr()
			svc.Endpoints(s.Nodes[0].A.Ready())
			name := kit.AtName("balancer.example.com")
			svc.IngressEntries(name, kit.AtIP(corev1.LoadBalancerIPModeVIP, vip))
			client := s.Nodes[1].B.Client
			s.Expect(client, kit.TCP(svc.At(vip)), kit.Pods(s.Nodes[0].A))
			svc.IngressEntries(name)
			s.Expect(client, kit.TCP(svc.At(vip)), kit.Unreachable())
			s.Expect(client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[0].A))
		},
	}
}
