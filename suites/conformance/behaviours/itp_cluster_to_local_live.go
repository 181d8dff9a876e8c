package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func itpClusterToLocalLive() kit.Behaviour {
	return kit.Behaviour{
		ID: "itp-cluster-to-local-live", Level: kit.Must, Profile: kit.ProfilePolicy,
		Says:     "A change of internalTrafficPolicy to Local and back is followed.",
		Promises: []promise.Promise{promise.InternalLocal, promise.Synchronized},
		Source:   []string{"KEP-2086"},
		Run: func(s *kit.Spec) {
			svc := s.Service()
			local, cluster := corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceInternalTrafficPolicyCluster
			at := kit.TCP(svc.ClusterIP())
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[1].A.Ready())
			all := kit.Pods(s.Nodes[0].A, s.Nodes[1].A)
			s.Expect(s.Nodes[0].B.Client, at, all)
			s.Expect(s.Nodes[2].B.Client, at, all)
			svc.Update(func(o *corev1.Service) { o.Spec.InternalTrafficPolicy = &local })
			s.Expect(s.Nodes[0].B.Client, at, kit.Pods(s.Nodes[0].A))
			s.Expect(s.Nodes[2].B.Client, at, kit.Unreachable())
			svc.Update(func(o *corev1.Service) { o.Spec.InternalTrafficPolicy = &cluster })
			s.Expect(s.Nodes[0].B.Client, at, all)
			s.Expect(s.Nodes[2].B.Client, at, all)
		},
	}
}
