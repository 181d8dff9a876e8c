package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func slicesWithHeadlessLabelIgnored() kit.Behaviour {
	return kit.Behaviour{
		ID: "slices-with-headless-label-ignored", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "A slice with the label of headless Services adds no endpoint to a Service, also if it has it later only.",
		Promises: []promise.Promise{promise.HeadlessLabel},
		Upstream: "[sig-network] Services should implement service.kubernetes.io/headless",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			svc.LabelledSlice("headless", map[string]string{corev1.IsHeadlessService: ""}, s.Nodes[1].B.Ready())
			svc.Endpoints(s.Nodes[1].A.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			svc.LabelledSlice("later", nil, s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A, s.Nodes[2].A))
			svc.LabelledSlice("later", map[string]string{corev1.IsHeadlessService: ""}, s.Nodes[2].A.Ready())
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(s.Nodes[1].A))
			svc.Endpoints()
			s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Unreachable())
		},
	}
}
