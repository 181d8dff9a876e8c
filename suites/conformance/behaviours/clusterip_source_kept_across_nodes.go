package behaviours

import "github.com/plumbline/plumbline/suites/conformance/kit"

func clusterIPSourceKeptAcrossNodes() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-source-kept-across-nodes", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "Endpoints on every node see the address of the pod that connects to their ClusterIP.",
		Source:   []string{"https://kubernetes.io/docs/reference/networking/virtual-ips/", "https://github.com/kubernetes/kubernetes/issues/126089"},
		Upstream: "[sig-network] Services should preserve source pod IP for traffic thru service cluster IP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service()
			var eps []kit.Endpoint
			var pods []*kit.Pod
			for _, n := range s.Nodes {
				eps, pods = append(eps, n.A.Ready()), append(pods, n.A)
			}
			svc.Endpoints(eps...)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).FromItself())
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).FromItself())
		},
	}
}
