package behaviours

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func idleConnectionsOutliveAdditions() kit.Behaviour {
	return kit.Behaviour{
		ID: "idle-connections-outlive-additions", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Connections that stand idle for half a minute through a ClusterIP and a node port stay with their endpoint when endpoints, ports and Services are added.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware},
		Waits:    true,
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(kit.NodePorts), s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			vias := []struct {
				from kit.Client
				to   kit.Target
			}{
				{s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP())},
				{s.Nodes[0].Client, kit.TCP(svc.ClusterIP())},
				{s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0]))},
			}
			var conns []*remote.Conns
			for _, via := range vias {
				s.Expect(via.from, via.to, kit.Pods(pod))
				conns = append(conns, s.Open(via.from, via.to, remote.Batch{Attempts: 20}))
			}
			svc.Endpoints(pod.Ready(), s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			svc.Update(func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81)) })
			after := s.Service()
			after.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(after.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(pod, s.Nodes[0].A, s.Nodes[0].B))
			s.Pause(30 * time.Second)
			for i, via := range vias {
				res := s.Ask(via.from, via.to, conns[i], 0, 1<<10)
				if sum := res.Summary(); sum.Server[pod.Name] != len(res.Attempts) {
					s.Fail("of the connections of %s that stood before the additions: %s", via.from.Name, sum)
				}
			}
		},
	}
}
