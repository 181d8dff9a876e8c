package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceDeletedStops() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-deleted-stops", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service that is deleted is reached no more, by its ClusterIP and by its node port, and others with the same endpoints lose no connection.",
		Promises: []promise.Promise{promise.Synchronized, promise.EveryNode},
		Upstream: "[sig-network] Services should be able to up and down services",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			gone, stays, pod := s.Service(kit.NodePorts), s.Service(), s.Nodes[1].A
			for _, svc := range []*kit.Service{gone, stays} {
				svc.Endpoints(pod.Ready())
				s.Expect(s.Nodes[0].A.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			}
			s.Expect(s.Outside(), kit.TCP(gone.NodePort(s.Nodes[0])), kit.Pods(pod))
			s.Throughout(s.Nodes[0].B.Client, kit.TCP(stays.ClusterIP()), 200, func() {
				gone.Delete()
				s.Expect(s.Nodes[0].A.Client, kit.TCP(gone.ClusterIP()), kit.Unreachable())
				s.Expect(s.Outside(), kit.TCP(gone.NodePort(s.Nodes[0])), kit.Unreachable())
			}, pod.Client)
		},
	}
}
