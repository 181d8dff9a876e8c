package behaviours

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortNotOnPodAddresses() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-not-on-pod-addresses", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port belongs to the addresses of nodes: the same port of a pod is the pod's own, and that of a ClusterIP, or of an address that is nobody's in the cluster, is not answered, nor is a node at the Service's own port.",
		Promises: []promise.Promise{promise.NodesAddress},
		Run: func(s *kit.Spec) {
			rare := func(o *corev1.Service) { o.Spec.Ports[0].Port, o.Spec.Ports[1].Port = 7415, 7416 }
			svc, pod := s.Service(kit.NodePorts, kit.Both, rare), s.Nodes[1].A
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(svc.NodePort(pod.Node)), kit.Pods(s.Nodes[0].A))
			own := netip.AddrPortFrom(pod.Addr(s.Family), svc.NodePort(pod.Node).Port())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(own), kit.Rejected())
			s.Expect(pod.Node.Client, kit.TCP(own), kit.Rejected())
			s.Expect(s.Nodes[0].B.Client, kit.UDP(netip.AddrPortFrom(own.Addr(), svc.NodePort(pod.Node, "dns").Port())), kit.Rejected().ByPods())
			nobodys := netip.AddrPortFrom(s.FreeAddr(), own.Port())
			s.Expect(s.Nodes[0].B.Client, kit.TCP(nobodys), kit.Unreachable())
			s.Expect(pod.Node.Client, kit.TCP(nobodys), kit.Unreachable())
			at := func(a netip.Addr, number int32) []kit.Way {
				var ways []kit.Way
				for _, c := range []kit.Client{s.Nodes[0].B.Client, s.Nodes[0].Client, s.Outside()} {
					to := netip.AddrPortFrom(a, uint16(number))
					ways = append(ways, kit.Way{From: c, To: kit.TCP(to)}, kit.Way{From: c, To: kit.UDP(to)})
				}
				return ways
			}
			for _, port := range svc.Object().Spec.Ports {
				s.Each(at(pod.Node.Addr(s.Family), port.Port), kit.Unreachable())
			}
			for _, c := range []kit.Client{s.Nodes[0].B.Client, pod.Node.Client} {
				s.Expect(c, kit.TCP(netip.AddrPortFrom(svc.ClusterIP().Addr(), own.Port())), kit.Unreachable())
			}
		},
	}
}
