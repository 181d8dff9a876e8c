package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func clusterIPSourceKeptAcrossNodes() kit.Behaviour {
	return kit.Behaviour{
		ID: "clusterip-source-kept-across-nodes", Level: kit.Should, Profile: kit.ProfileCore,
		Says:     "Endpoints on every node see the address of the pod that connects to their ClusterIP, or sends datagrams there, under internalTrafficPolicy=Local and with session affinity too, and where the Service is of another type, under each external policy.",
		Promises: []promise.Promise{promise.ClusterIPSource},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/126089"},
		Features: []kit.Feature{kit.FeatureClusterIPSource},
		Upstream: "[sig-network] Services should preserve source pod IP for traffic thru service cluster IP [LinuxOnly]",
		Run: func(s *kit.Spec) {
			svc := s.Service(kit.Ports(kit.Port("http", corev1.ProtocolTCP, 80), kit.Port("dns", corev1.ProtocolUDP, 53)))
			var eps []kit.Endpoint
			var pods []*kit.Pod
			for _, n := range s.Nodes {
				eps, pods = append(eps, n.A.Ready()), append(pods, n.A)
			}
			svc.Endpoints(eps...)
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).FromItself())
			s.Expect(s.Nodes[1].B.Client, kit.TCP(svc.ClusterIP()), kit.Pods(pods...).FromItself())
			s.Expect(s.Nodes[0].B.Client, kit.UDP(svc.ClusterIP("dns")), kit.Pods(pods...).FromItself())
			for _, as := range []func(*corev1.Service){kit.InternalLocal, kit.Sticky(600)} {
				svc := s.Service(kit.Both, as)
				svc.Endpoints(s.Nodes[1].A.Ready())
				s.Each(svc.Ways(s.Nodes[1].B.Client), kit.Pods(s.Nodes[1].A).FromItself())
			}
			for _, as := range [][]func(*corev1.Service){{kit.NodePorts}, {kit.LoadBalanced}, {kit.NodePorts, kit.ExternalLocal}, {kit.LoadBalanced, kit.ExternalLocal}} {
				svc := s.Service(append(as, kit.Both)...)
				svc.Endpoints(s.Nodes[1].A.Ready(), s.Nodes[2].A.Ready())
				s.Each(svc.Ways(s.Nodes[1].B.Client, s.Nodes[3].B.Client), kit.Pods(s.Nodes[1].A, s.Nodes[2].A).FromItself())
			}
		},
	}
}
