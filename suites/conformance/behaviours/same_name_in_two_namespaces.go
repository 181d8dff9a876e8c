package behaviours

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func sameNameInTwoNamespaces() kit.Behaviour {
	return kit.Behaviour{
		ID: "same-name-in-two-namespaces", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Services of one name in two namespaces, with slices of one name, are two: each has its own address and endpoints, and one stays when the other goes; so are two in one namespace whose names differ in the last of 63 characters, or are the same with those of their ports.",
		Promises: []promise.Promise{promise.NamesOfNamespace, promise.ClusterIP},
		Run: func(s *kit.Spec) {
			svc, n := s.Service(), s.Nodes
			svc.Endpoints(n[0].A.Ready())
			other, _ := svc.Namesake(n[1].A)
			own := kit.TCP(svc.ClusterIP())
			clients := []kit.Client{n[0].B.Client, n[3].Client}
			for _, c := range clients {
				s.Expect(c, own, kit.Pods(n[0].A))
				s.Expect(c, other, kit.Pods(n[1].A))
			}
			svc.Endpoints(n[2].A.Ready())
			for _, c := range clients {
				s.Expect(c, own, kit.Pods(n[2].A))
				s.Expect(c, other, kit.Pods(n[1].A))
			}
			long := func(last string, p *kit.Pod) kit.Target {
				name := svc.Object().Name + strings.Repeat("-long", 9)
				svc := s.Service(func(o *corev1.Service) { o.Name = name[:62] + last })
				svc.Endpoints(p.Ready())
				return kit.TCP(svc.ClusterIP())
			}
			first, second := long("1", n[0].A), long("2", n[1].A)
			for _, c := range clients {
				s.Expect(c, first, kit.Pods(n[0].A))
				s.Expect(c, second, kit.Pods(n[1].A))
			}
			joint := svc.Object().Name + "-x"
			short := s.Service(func(o *corev1.Service) { o.Name = joint }, kit.Ports(kit.Port("y-http", corev1.ProtocolTCP, 80)))
			longer := s.Service(func(o *corev1.Service) { o.Name = joint + "-y" })
			short.Endpoints(n[0].A.Ready())
			longer.Endpoints(n[1].A.Ready())
			s.Each(short.Ways(clients...), kit.Pods(n[0].A))
			s.Each(longer.Ways(clients...), kit.Pods(n[1].A))
			svc.Delete()
			for _, c := range clients {
				s.Expect(c, own, kit.Unreachable())
				s.Expect(c, other, kit.Pods(n[1].A))
			}
		},
	}
}
