package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func dualStackExternalLocal() kit.Behaviour {
	return kit.Behaviour{
		ID: "dualstack-external-local", Level: kit.Must, Profile: kit.ProfileDual,
		Says:     "The policies Local of a Service of both families hold in each: at the node that has the endpoint of the family, and not at another.",
		Promises: []promise.Promise{promise.Families, promise.ExternalLocal, promise.InternalLocal, promise.InternalLocalOnly},
		Writes:   kit.SinceInternalPolicy,
		Source:   []string{"KEP-563"},
		Needs:    []kit.Need{kit.NeedDual, kit.NeedOutside},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.DualStack, kit.ExternalLocal, kit.InternalLocal), s.Nodes
			at := map[corev1.IPFamily]*kit.Node{corev1.IPv4Protocol: n[0], corev1.IPv6Protocol: n[1]}
			kit.InBoth(s, func(f corev1.IPFamily) { svc.Slice(kit.SliceOf(f), nil, at[f].A.Ready()) })
			kit.InBoth(s, func(f corev1.IPFamily) {
				to := kit.TCP(svc.ClusterIPOf(f))
				for _, node := range n[:2] {
					inside, outside := kit.Unreachable(), kit.Unreachable()
					if node == at[f] {
						inside, outside = kit.Pods(node.A), kit.Pods(node.A).From(s.Source(s.Outside(), node))
					}
					s.Expect(node.B.Client, to, inside)
					s.Expect(s.Outside(), kit.TCP(svc.NodePort(node)), outside)
				}
			})
		},
	}
}
