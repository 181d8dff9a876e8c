package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sourceRangesChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "source-ranges-changed-while-away", Level: kit.Must, Profile: kit.ProfileSourceRanges,
		Says:     "loadBalancerSourceRanges that were exchanged while the agents were away hold when they are back, and those from before do not, and where they were removed none do.",
		Promises: []promise.Promise{promise.SourceRanges, promise.Synchronized},
		Writes:   kit.SinceClass,
		Features: []kit.Feature{kit.FeatureSourceRanges},
		Needs:    []kit.Need{kit.NeedAgents, kit.NeedNodes},
		Serial:   true,
		Shares:   true,
		Run: func(s *kit.Spec) {
			pod, one, two := s.Nodes[0].A, s.HostBeyond(s.Nodes[0]), s.HostBeyond(s.Nodes[0])
			svc, vip := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(one.Addr(s.Family)))), s.FreeAddr()
			svc.Endpoints(pod.Ready())
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			to := kit.TCP(svc.At(vip))
			s.Expect(one, to, kit.Pods(pod))
			s.Expect(two, to, kit.Unreachable())
			free, at := s.Service(kit.LoadBalanced, kit.SourceRanges(kit.Alone(one.Addr(s.Family)))), s.FreeAddr()
			free.Endpoints(pod.Ready())
			free.Ingress(corev1.LoadBalancerIPModeVIP, at)
			s.Expect(one, kit.TCP(free.At(at)), kit.Pods(pod))
			s.WithoutAgents(func() {
				svc.Update(kit.SourceRanges(kit.Alone(two.Addr(s.Family))))
				free.Update(kit.SourceRanges())
			})
			s.Each(free.WaysTo(at, one, two), kit.Pods(pod))
			s.Expect(two, to, kit.Pods(pod))
			s.Expect(one, to, kit.Unreachable())
		},
	}
}
