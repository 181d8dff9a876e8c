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
		Says:     "Connections that stand idle for more than a minute through a ClusterIP, a node port, the address of a load balancer and an external IP stay with their endpoint when endpoints, ports and Services are added, or when it terminates; and as long as nothing changes no new connection fails, and what was taken away stays away.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware, promise.EveryNode, promise.Ingress, promise.ExternalIPs},
		Source:   []string{"RFC 5382, section 5: idle connections are kept for two hours"},
		Writes:   kit.SinceClass,
		Waits:    true,
		Run: func(s *kit.Spec) {
			svc, addrs := atAll(s)
			pod := s.Nodes[1].A
			svc.Endpoints(pod.Ready())
			type via struct {
				from kit.Client
				to   kit.Target
			}
			vias := []via{
				{s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP())},
				{s.Nodes[0].Client, kit.TCP(svc.ClusterIP())},
				{s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0]))},
			}
			for _, a := range addrs {
				vias = append(vias, via{s.Nodes[0].A.Client, kit.TCP(svc.At(a))})
			}
			var conns []*remote.Conns
			for _, via := range vias {
				s.Expect(via.from, via.to, kit.Pods(pod))
				conns = append(conns, s.Open(via.from, via.to, remote.Batch{Attempts: 20}))
			}
			svc.Endpoints(pod.Ready(), s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			svc.Update(func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81)) })
			drains, ends := s.Service(), s.Nodes[2].A
			drains.Endpoints(ends.Ready())
			drained := kit.TCP(drains.ClusterIP())
			s.Expect(s.Nodes[0].A.Client, drained, kit.Pods(ends))
			last := s.Open(s.Nodes[0].A.Client, drained, remote.Batch{Attempts: 20})
			drains.Endpoints(ends.Draining(), pod.Ready())
			after := s.Service()
			after.Endpoints(pod.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(after.ClusterIP()), kit.Pods(pod))
			s.Expect(s.Outside(), kit.TCP(svc.NodePort(s.Nodes[0])), kit.Pods(pod, s.Nodes[0].A, s.Nodes[0].B))
			svc.Endpoints(pod.Ready(), s.Nodes[0].A.Ready())
			left := []kit.Client{pod.Client, s.Nodes[0].A.Client}
			gone, vip := atVIP(s)
			gone.Endpoints(pod.Ready())
			away := gone.WaysTo(vip, s.Nodes[0].B.Client)
			s.Each(away, kit.Pods(pod))
			gone.Delete()
			s.Each(away, kit.Unreachable())
			inside, outside := kit.Way{From: s.Nodes[0].B.Client, To: vias[0].to}, kit.Way{From: s.Outside(), To: vias[2].to}
			s.Each([]kit.Way{inside, outside}, kit.Only(left...))
			s.Throughout(outside.From, outside.To, 20, func() {
				s.Throughout(inside.From, inside.To, 20, func() { s.Pause(30 * time.Second) }, left...)
			}, left...)
			s.Pause(40 * time.Second) // a minute is a usual timeout
			s.Each(away, kit.Unreachable())
			s.Expect(s.Nodes[0].B.Client, drained, kit.Pods(pod))
			res := s.Ask(s.Nodes[0].A.Client, drained, last, 0, 1<<10)
			if sum := res.Summary(); sum.Server[ends.Name] != len(res.Attempts) {
				s.Fail("of the connections to an endpoint that terminates: %s", sum)
			}
			for i, via := range vias {
				res := s.Ask(via.from, via.to, conns[i], 0, 1<<10)
				if sum := res.Summary(); sum.Server[pod.Name] != len(res.Attempts) {
					s.Fail("of the connections of %s that stood before the additions: %s", via.from.Name, sum)
				}
			}
		},
	}
}
