package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackFamilyAdded() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-family-added", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "A Service that gets a second family is served at the address of that family and at its node ports, by TCP and UDP, and no more when it loses it, while the first loses no connection.",
		Promises: []promise.Promise{promise.Families, promise.EveryNode},
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual},
		Serial:   true,
		Run: func(s *kit.Spec) {
			first, second := s.Family, corev1.IPv6Protocol
			if first == second {
				second = corev1.IPv4Protocol
			}
			svc, pod, n := s.Service(kit.NodePorts, kit.Both), s.Nodes[1].A, s.Nodes[0]
			svc.Slice("first", nil, pod.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			s.Throughout(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), 200, func() {
				svc.Update(func(o *corev1.Service) { *o.Spec.IPFamilyPolicy = corev1.IPFamilyPolicyRequireDualStack })
				added := svc.WaysTo(svc.ClusterIPOf(second).Addr(), n.A.Client, n.Client)
				s.In(second, func() {
					svc.Slice("second", nil, pod.Ready())
					added = append(added, svc.NodePortWays(n, s.Outside(), n.A.Client)...)
					s.Each(added, kit.Pods(pod))
				})
				svc.Update(func(o *corev1.Service) {
					*o.Spec.IPFamilyPolicy = corev1.IPFamilyPolicySingleStack
					o.Spec.ClusterIPs, o.Spec.IPFamilies = o.Spec.ClusterIPs[:1], o.Spec.IPFamilies[:1]
				})
				s.Each(added, kit.Unreachable())
				s.Each(svc.NodePortWays(n, s.Outside()), kit.Pods(pod))
			}, pod.Client)
		},
	}
}
