package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func endpointWithoutNodeName() kit.Behaviour {
	return kit.Behaviour{
		ID: "endpoint-without-node-name", Level: kit.Must, Profile: kit.ProfileCore,
		Says:   "An endpoint of which the slice names no node is used under policy Cluster, from every node.",
		Source: []string{"https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/", "https://kubernetes.io/docs/concepts/services-networking/service/#services-without-selectors"},
		Run: func(s *kit.Spec) {
			svc, pod := s.Service(), s.Nodes[1].A
			svc.Endpoints(kit.Address(pod.Addr(s.Family)))
			for _, n := range s.Nodes[:2] {
				s.Expect(n.B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pod))
			}
		},
	}
}
