package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func vipLocalPolicyFromBeyond() kit.Behaviour {
	return kit.Behaviour{
		ID: "vip-local-policy-from-beyond", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "Under externalTrafficPolicy=Local what arrives from outside at a node reaches the endpoints of that node alone, of every kind, with the source it had, by TCP and UDP, each of eighteen of them.",
		Promises: []promise.Promise{promise.ExternalLocal, promise.ReadyEndpoints, promise.AnyBackend},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow] should work for type=LoadBalancer",
		Needs:    []kit.Need{kit.NeedNodes},
		Run: func(s *kit.Spec) {
			svc, vip := s.Service(kit.LoadBalanced, kit.ExternalLocal, kit.Both), s.FreeAddr()
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			hosts := s.HostsBeyond(s.Nodes[:3]...)
			for _, beside := range s.Beside() {
				svc.Kinds(beside...)
				for i, server := range s.OfKinds() {
					s.Each(svc.WaysTo(vip, hosts[i]), kit.Only(server).FromItself())
				}
			}
			svc.Endpoints(s.Nodes[0].A.Ready(), s.Nodes[0].B.Ready())
			s.Each(svc.WaysTo(vip, hosts[0]), kit.Pods(s.Nodes[0].A, s.Nodes[0].B).FromItself())
			many, at := atVIP(s, kit.ExternalLocal)
			manyOfANode(s, many, many.WaysTo(at, hosts[0]), 9800)
		},
	}
}
