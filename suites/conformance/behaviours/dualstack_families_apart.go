package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackFamiliesApart() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-families-apart", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "Each address of a Service of both families leads to the endpoints of its family alone.",
		Promises: []promise.Promise{promise.Families, promise.AddressType},
		Source:   []string{"KEP-563"},
		Upstream: "[sig-network] [Feature:IPv6DualStack] should create service with ipv4,v6 cluster ip",
		Needs:    []kit.Need{kit.NeedDual},
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.DualStack)
			at := map[corev1.IPFamily]*kit.Pod{corev1.IPv4Protocol: s.Nodes[0].A, corev1.IPv6Protocol: s.Nodes[1].A}
			for family, pod := range at {
				s.In(family, func() { svc.Slice(kit.SliceOf(family), nil, pod.Ready()) })
			}
			for family, pod := range at {
				s.In(family, func() { s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIPOf(family)), kit.Pods(pod)) })
			}
		},
	}
}
