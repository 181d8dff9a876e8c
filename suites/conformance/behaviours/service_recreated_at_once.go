package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func serviceRecreatedAtOnce() kit.Behaviour {
	return kit.Behaviour{
		ID: "service-recreated-at-once", Level: kit.Must, Profile: kit.ProfileLifecycle,
		Says:     "A Service that is deleted and at once made anew under the same name is served at the addresses that it has now, and at those that it had no more, by TCP and UDP, a load balancer's among them, and so is its healthCheckNodePort.",
		Promises: []promise.Promise{promise.Synchronized, promise.ClusterIP, promise.NodePort, promise.Ingress, promise.ExternalFromInside},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Services should work after the service has been recreated",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, n := s.Service(kit.NodePorts, kit.Both), s.Nodes
			ways := func() []kit.Way {
				return append(svc.Ways(n[0].B.Client, n[3].B.Client, n[3].Client), svc.NodePortWays(n[3], s.Outside())...)
			}
			svc.Endpoints(n[0].A.Ready())
			before, was, old := ways(), svc.ClusterIP(), svc.NodePort(n[3])
			s.Each(before, kit.Pods(n[0].A))
			svc.DeleteAlone()
			svc.Make()
			svc.Endpoints(n[1].A.Ready())
			if svc.ClusterIP() == was || svc.NodePort(n[3]) == old {
				s.Inconclusive("the API gave the Service an address or a node port again that it had before")
			}
			s.Each(ways(), kit.Pods(n[1].A))
			s.Each(before, kit.Unreachable())
			checked, vip := atVIP(s, kit.ExternalLocal)
			checked.Endpoints(n[0].A.Ready())
			balanced := checked.WaysTo(vip, n[0].B.Client, n[3].Client)
			s.Each(balanced, kit.Pods(n[0].A))
			had := checked.HealthPort(n[0])
			s.ExpectHTTP(s.Outside(), had, "/", kit.Status(200))
			checked.DeleteAlone()
			checked.Make()
			if checked.HealthPort(n[0]) == had {
				s.Inconclusive("the API gave the Service the health check port that it had before")
			}
			s.ExpectHTTP(s.Outside(), checked.HealthPort(n[0]), "/", kit.Status(200))
			s.ExpectNoCheck(s.Outside(), had)
			s.Each(balanced, kit.Unreachable())
		},
	}
}
