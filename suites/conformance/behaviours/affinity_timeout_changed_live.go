package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func affinityTimeoutChangedLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "affinity-timeout-changed-live", Level: kit.Must, Profile: kit.ProfileAffinity,
		Says:     "A change of the affinity timeout is followed: who connects from then on is assigned anew after the new one.",
		Promises: []promise.Promise{promise.AffinityTimeout, promise.Synchronized},
		Run: func(s *kit.Spec) {
			const timeout = 2
			ports := []corev1.ServicePort{kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("new", corev1.ProtocolTCP, 81)}
			svc := s.Service(kit.Sticky(600))
			pods := s.EightPods()
			both := []discoveryv1.EndpointPort{kit.SlicePort("http", corev1.ProtocolTCP, kit.PodPort), kit.SlicePort("new", corev1.ProtocolTCP, kit.PodPort)}
			svc.Slice("a", both, kit.ReadyAll(pods)...)
			s.ExpectOne(s.Nodes[0].Client, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...)
			svc.Update(func(o *corev1.Service) {
				kit.Sticky(timeout)(o)
				o.Spec.Ports = ports
			})
			before := map[string]string{}
			for _, c := range kit.Clients(pods...) {
				s.ExpectOne(c, kit.TCP(svc.ClusterIP("new")), 1, kit.Clients(pods...)...) // its node has followed
				before[c.Name] = s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 5, kit.Clients(pods...)...).Name
			}
			s.Pause((timeout + 1) * time.Second)
			for _, c := range kit.Clients(pods...) { // by chance all get the same again once in 10^7 runs
				if s.ExpectOne(c, kit.TCP(svc.ClusterIP()), 1, kit.Clients(pods...)...).Name != before[c.Name] {
					return
				}
			}
			s.Fail("after %d s without a connection each of %d clients still has its endpoint, of %d", timeout+1, len(pods), len(pods))
		},
	}
}
