package behaviours

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// front makes a Service, with a port for TCP and one for UDP, and gives it an address beside its
// ClusterIP: a load balancer's or an external IP. What is asked of both is one function of it.
type front func(s *kit.Spec, as ...func(*corev1.Service)) (*kit.Service, netip.Addr)

// atVIP is the address of a load balancer in VIP mode.
func atVIP(s *kit.Spec, as ...func(*corev1.Service)) (*kit.Service, netip.Addr) {
	svc, vip := s.Service(append(as, kit.LoadBalanced, kit.Both)...), s.FreeAddr()
	svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
	return svc, vip
}

// atExternalIP is an external IP, of a Service of type ClusterIP if it is not made another.
func atExternalIP(s *kit.Spec, as ...func(*corev1.Service)) (*kit.Service, netip.Addr) {
	addr := s.FreeAddr()
	return s.Service(append(as, kit.ExternalIPs(addr), kit.Both)...), addr
}

// externalIP is one for a Service, and what gives it to that, where the dataplane has such; else none.
func externalIP(s *kit.Spec) (addrs []netip.Addr, give func(*corev1.Service)) {
	if s.Has(kit.FeatureExternalIPs) {
		addrs = []netip.Addr{s.FreeAddr()}
	}
	return addrs, kit.ExternalIPs(addrs...)
}

// atAll is the address of a load balancer in VIP mode, first, and an external IP of the same Service, where the
// dataplane has such.
func atAll(s *kit.Spec, as ...func(*corev1.Service)) (*kit.Service, []netip.Addr) {
	addrs, give := externalIP(s)
	svc, vip := atVIP(s, append(as, give)...)
	return svc, append([]netip.Addr{vip}, addrs...)
}

// waysToAll are those of clients to some addresses.
func waysToAll(svc *kit.Service, addrs []netip.Addr, clients ...kit.Client) (ways []kit.Way) {
	for _, a := range addrs {
		ways = append(ways, svc.WaysTo(a, clients...)...)
	}
	return ways
}

// waysBy are those that lead to a Service by a node: of a pod there to its ClusterIP and to some addresses, of the client
// outside to its node ports, and, where there can be one, of a host beyond the node to these addresses.
func waysBy(s *kit.Spec, n *kit.Node, svc *kit.Service, addrs []netip.Addr) []kit.Way {
	clients := []kit.Client{n.B.Client}
	if s.Met(kit.NeedNodes) {
		clients = append(clients, s.HostBeyond(n))
	}
	return slices.Concat(svc.Ways(n.B.Client), svc.NodePortWays(n, s.Outside()), waysToAll(svc, addrs, clients...))
}

// ofPort are those by the ith of two ports, of ways that lead by both in turn.
func ofPort(ways []kit.Way, i int) (out []kit.Way) {
	for ; i < len(ways); i += 2 {
		out = append(out, ways[i])
	}
	return out
}

// meetsItself: a pod reaches itself by its own ways to a Service as an endpoint: beside another, alone, when it comes
// back, from source ports that it has used, at another target port, and while it terminates, where terminating ones are used.
func meetsItself(s *kit.Spec, svc *kit.Service, ways []kit.Way, firstPort uint16, self, other *kit.Pod) {
	for _, pods := range [][]*kit.Pod{{other}, {other, self}, {self}, {other}, {self, other}} {
		svc.Endpoints(kit.ReadyAll(pods)...)
		s.Each(ways, kit.Pods(pods...))
	}
	for _, way := range ofPort(ways, 0) { // by TCP, from the same ports again
		samePorts(s, way, firstPort, self, other)
	}
	svc.SliceAt("a", kit.OtherPort, self.Ready())
	s.Each(ways, kit.Pods(self).ServedAt(kit.OtherPort))
	if s.Has(kit.TerminatingFallback) {
		svc.Endpoints(self.Draining())
		s.Each(ways, kit.Pods(self))
	}
}

// reachAllReady: all ready endpoints answer these clients, whatever stands beside them, and nobody any more when the
// Service is gone. The first client's packets may also be nearly full, its datagrams without a checksum and its connections
// closed by half, and its shares are within half of even.
func reachAllReady(f front, clients func(*kit.Spec) []kit.Client) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s)
		ways := svc.WaysTo(addr, clients(s)...)
		for _, beside := range s.Beside() {
			s.Each(ways, svc.Kinds(beside...))
		}
		nearFull(s, ways[:2], s.OfKinds()...) // of one client, by TCP and UDP
		closeHalf(s, ways[:1], s.OfKinds()...)
		if s.Has(kit.FeatureSpread) {
			withinHalf(s, ways[:2], s.OfKinds()...)
		}
		svc.Delete()
		s.Each(ways, kit.Unreachable())
	}
}

// beyond is a host beyond each node.
func beyond(s *kit.Spec) []kit.Client { return s.HostsBeyond(s.FirstNodes()...) }

// hideTerminating: while one is ready, those that are not answer nobody.
func hideTerminating(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s)
		ways := svc.WaysTo(addr, s.Everyone()...)
		for _, beside := range s.Beside()[1:] {
			s.Each(ways, svc.Kinds(beside...))
		}
	}
}

// fallBackToTerminating: with none ready those that terminate and serve answer everyone, and when one is ready
// again that one alone.
func fallBackToTerminating(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s)
		want := svc.Ending(s.Nodes[1].B.NotReady(), s.Nodes[2].B.Ending())
		ways := svc.WaysTo(addr, s.Everyone()...)
		s.Each(ways, want)
		svc.SliceAt("port", kit.OtherPort, s.Nodes[1].A.Ready())
		s.Each(ways, kit.Pods(s.Nodes[1].A))
	}
}

// drainLocally: under policy Local those of a node that terminate and serve answer hosts beyond it,
// whether others are ready elsewhere or not, also with affinity, and where there are none nobody does; and their
// connections stay whole.
func drainLocally(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.NodePorts, kit.ExternalLocal)
		hosts := s.HostsBeyond(s.Nodes[:3]...)
		for i, elsewhere := range [][]kit.Endpoint{nil, {s.Nodes[3].A.Ready()}, {s.Nodes[3].B.Ready()}} {
			if i == 2 {
				svc.Update(kit.Sticky(600))
			}
			svc.Ending(append(elsewhere, s.Nodes[0].B.Ending())...)
			for i, server := range s.OfKinds() {
				s.Each(svc.WaysTo(addr, hosts[i]), kit.Only(server).FromItself())
			}
			if elsewhere == nil {
				s.Each(svc.WaysTo(addr, s.HostBeyond(s.Nodes[3])), kit.Unreachable())
			}
		}
		svc.Update(kit.NotSticky)
		svc.Kinds()
		var open []kit.Way // by TCP
		for i, server := range s.OfKinds() {
			ways := svc.WaysTo(addr, hosts[i])
			s.Each(ways, kit.Only(server))
			open = append(open, ways[0])
		}
		stay := stand(s, open)
		svc.Ending(s.Nodes[3].A.Ready())
		heard(s, s.PodClients()...)
		stay()
	}
}

// unusableUnanswered: who was answered while endpoints were ready is not when they are not ready or
// have ended, under each policy.
func unusableUnanswered(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.NodePorts)
		inside, hosts := svc.WaysTo(addr, s.Inside()...), beyond(s)
		for _, local := range []bool{false, true} {
			svc.Update(map[bool]func(*corev1.Service){false: kit.ExternalCluster, true: kit.ExternalLocal}[local])
			for _, state := range []func(kit.Endpoint) kit.Endpoint{kit.Endpoint.Unready, kit.Endpoint.Ended} {
				want, ways := svc.Kinds(), inside
				s.Each(inside, want)
				for i, host := range hosts {
					wants, of := want, svc.WaysTo(addr, host)
					switch {
					case local && i < len(s.OfKinds()):
						wants = kit.Only(s.OfKinds()[i])
					case local:
						continue // its node has no endpoint, and answers it in no state
					}
					s.Each(of, wants)
					ways = append(ways[:len(ways):len(ways)], of...)
				}
				svc.AllKinds(state)
				s.Each(ways, kit.Unreachable())
			}
		}
	}
}

// stick: of a Service with affinity one endpoint answers each client.
func stick(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.Sticky(600))
		svc.Kinds()
		s.EachOne(svc.WaysTo(addr, s.Everyone()...), s.OfKinds()...)
	}
}

// stayBound: whoever has an endpoint of a Service with affinity by one of six ways stays with it when others leave
// and come back, and when something else of the Service changes. The clients are on each node that the ways lead to.
func stayBound(s *kit.Spec, svc *kit.Service, ways []kit.Way, clients []kit.Client) {
	pods := s.EightPods()
	svc.Endpoints(kit.ReadyAll(pods)...)
	bound, free := make([]kit.Client, len(ways)), slices.Clone(pods)
	for i, way := range ways {
		bound[i] = s.ExpectOne(way.From, way.To, 5, kit.Clients(pods...)...)
		free = slices.DeleteFunc(free, func(p *kit.Pod) bool { return p.Name == bound[i].Name })
	}
	stay := func() {
		heard(s, clients...)
		for i, way := range ways {
			s.Expect(way.From, way.To, kit.Only(bound[i]).Times(20))
		}
	}
	for _, p := range free[:2] { // of eight, of which six at most are bound
		pods = slices.DeleteFunc(pods, func(o *kit.Pod) bool { return o == p })
		svc.Endpoints(kit.ReadyAll(pods)...)
		stay() // by chance, if all of so many ways are assigned anew, once in 6^ways runs at most
	}
	svc.Endpoints(kit.ReadyAll(s.EightPods())...)
	stay() // in 8^ways
	svc.Update(func(o *corev1.Service) {
		o.Annotations = map[string]string{"example.com/note": "changed"}
		o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81))
	})
	stay()
}

// heard waits until what was changed before has been heard of on the nodes of some clients: until a Service that
// comes later is served there.
func heard(s *kit.Spec, clients ...kit.Client) {
	later, pod := s.Service(), s.Nodes[0].A
	later.Endpoints(pod.Ready())
	s.Each(later.Ways(clients...), kit.Pods(pod))
}

// emptied: when the one endpoint goes, each client in the cluster meets what is wanted, under each policy.
func emptied(f front, want kit.Want) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.NodePorts)
		ways := svc.WaysTo(addr, s.Inside()...)
		for _, policy := range []func(*corev1.Service){kit.ExternalCluster, kit.ExternalLocal} {
			svc.Update(policy)
			svc.Endpoints(s.Nodes[0].A.Ready())
			s.Each(ways, kit.Pods(s.Nodes[0].A))
			svc.Endpoints()
			s.Each(ways, want)
		}
	}
}

// emptiedFromBeyond is that of hosts beyond each node: each has an endpoint until all go.
func emptiedFromBeyond(f front, want kit.Want) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.NodePorts)
		nodes, hosts := s.FirstNodes(), beyond(s)
		var pods []*kit.Pod
		for _, n := range nodes {
			pods = append(pods, n.A)
		}
		for _, local := range []bool{false, true, false} {
			svc.Update(map[bool]func(*corev1.Service){false: kit.ExternalCluster, true: kit.ExternalLocal}[local])
			svc.Endpoints(kit.ReadyAll(pods)...)
			for i, host := range hosts {
				servers := pods
				if local {
					servers = pods[i : i+1]
				}
				s.Each(svc.WaysTo(addr, host), kit.Pods(servers...))
			}
			svc.Endpoints()
			s.Each(svc.WaysTo(addr, hosts...), want)
		}
	}
}

// spreadEvenly: a pod beside an endpoint, one elsewhere, a node and a host beyond it reach all evenly.
// So, within half, does the host those of its node under policy Local. Then there are 72 of them, at ports from the first on, and each has its share of what the pod elsewhere and the host send.
func spreadEvenly(f front, first uint16) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s)
		svc.Kinds()
		n, host, pods := s.Nodes, s.HostBeyond(s.Nodes[3]), s.EightPods()
		s.Even(svc.WaysTo(addr, n[0].B.Client, n[3].B.Client, n[3].Client, host))
		local, at := f(s, kit.NodePorts, kit.ExternalLocal)
		local.Endpoints(n[3].A.Ready(), n[3].B.Ready(), n[0].A.Ready())
		withinHalf(s, local.WaysTo(at, host), n[3].A.Client, n[3].B.Client)
		svc, addr = f(s)
		ports := s.Serve(first, 9, pods...)
		for _, number := range ports {
			svc.SliceAt(fmt.Sprint(number), int32(number), kit.ReadyAll(pods)...)
		}
		heard(s, n[3].B.Client)
		for _, way := range append(svc.WaysTo(addr, n[3].B.Client)[:1], svc.WaysTo(addr, host)[1:]...) { // by TCP, and by UDP
			s.Expect(way.From, way.To, kit.Pods(pods...).AtAll(ports, 1700)) // of 72 one is spared by chance once in 10^8
		}
	}
}

// comeAndGo: ports are added to a Service of which a pod is the endpoint, then those that it had before
// are taken away, as some ways by each of its ports have it.
func comeAndGo(s *kit.Spec, svc *kit.Service, ways func() []kit.Way, pod *kit.Pod) {
	svc.Endpoints(pod.Ready())
	before := ways()
	s.Each(before, kit.Pods(pod))
	svc.Update(func(o *corev1.Service) {
		o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81), kit.Port("more-dns", corev1.ProtocolUDP, 54))
	})
	svc.Endpoints(pod.Ready())
	s.Each(ways(), kit.Pods(pod))
	svc.Update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[2:] })
	s.Each(before, kit.Unreachable())
	s.Each(ways(), kit.Pods(pod))
}

// portsChange is that at a front, from inside. Then they get other numbers, each the other's protocol, and other
// names, there are forty more, and their slice goes. The numbers of node ports, and its endpoints', a Service does not have there.
func portsChange(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s)
		n, pod := s.Nodes, s.Nodes[1].A
		ways := func() []kit.Way { return svc.WaysTo(addr, n[0].B.Client, n[3].B.Client, n[3].Client) }
		comeAndGo(s, svc, ways, pod)
		numbered, at := f(s, kit.NodePorts)
		numbered.Endpoints(pod.Ready())
		s.Each(numbered.WaysTo(at, n[0].B.Client), kit.Pods(pod))
		numbers := numbered.Object().Spec.Ports
		for _, number := range []int32{numbers[0].NodePort, numbers[1].NodePort, kit.PodPort} { // node ports are nodes' alone
			to := netip.AddrPortFrom(at, uint16(number))
			for _, c := range []kit.Client{n[0].B.Client, n[3].Client} {
				s.Each([]kit.Way{{From: c, To: kit.TCP(to)}, {From: c, To: kit.UDP(to)}}, kit.Unreachable())
			}
		}
		change := func(mutate func(p []corev1.ServicePort)) {
			svc.Update(func(o *corev1.Service) { mutate(o.Spec.Ports) })
			svc.Endpoints(pod.Ready())
			s.Each(ways(), kit.Pods(pod))
		}
		for _, mutate := range []func([]corev1.ServicePort){
			func(p []corev1.ServicePort) { p[0].Port, p[1].Port = 8888, 5353 },
			func(p []corev1.ServicePort) { p[0].Protocol, p[1].Protocol = p[1].Protocol, p[0].Protocol },
		} {
			before := ways()
			change(mutate)
			s.Each(before, kit.Unreachable())
		}
		change(func(p []corev1.ServicePort) { p[0].Name, p[1].Name = "renamed", "renamed-too" })
		svc.Update(func(o *corev1.Service) {
			for i := range int32(20) {
				o.Spec.Ports = append(o.Spec.Ports, kit.Port(fmt.Sprintf("t%d", i), corev1.ProtocolTCP, 1000+i), kit.Port(fmt.Sprintf("u%d", i), corev1.ProtocolUDP, 1000+i))
			}
		})
		svc.Endpoints(pod.Ready())
		s.Each(ways(), kit.Pods(pod).Times(4))
		svc.DeleteSlice("a")
		s.Each(svc.WaysTo(addr, n[0].B.Client), kit.Unreachable())
	}
}

// withInternalLocal: under internalTrafficPolicy=Local all endpoints answer everyone at a front, and those of
// the client's node alone at the ClusterIP.
func withInternalLocal(f front) func(*kit.Spec) {
	return func(s *kit.Spec) {
		svc, addr := f(s, kit.InternalLocal)
		want := svc.Kinds()
		s.Each(svc.Ways(s.Nodes[0].B.Client, s.Nodes[0].Client), kit.Pods(s.Nodes[0].A))
		s.Each(svc.WaysTo(addr, s.Everyone()...), want)
	}
}

// handedOn: an address of one Service goes to another, which has affinity, and back; give says which it has. Of UDP
// flows that stand nothing is asked: kube-proxy looks for stale ones when endpoints change, and here none do.
func handedOn(f front, give func(svc *kit.Service, addrs ...netip.Addr)) func(*kit.Spec) {
	return func(s *kit.Spec) {
		one, addr := f(s)
		two, before := f(s, kit.Sticky(600))
		n := s.Nodes
		one.Endpoints(n[0].A.Ready())
		two.Endpoints(n[1].A.Ready())
		ways := one.WaysTo(addr, n[2].B.Client, n[3].Client)
		s.Each(ways, kit.Pods(n[0].A))
		s.Each(two.WaysTo(before, n[2].B.Client), kit.Pods(n[1].A))
		give(one)
		give(two, addr)
		s.Each(ways, kit.Pods(n[1].A))
		s.Each(two.WaysTo(before, n[2].B.Client), kit.Unreachable())
		give(two, before)
		give(one, addr)
		s.Each(ways, kit.Pods(n[0].A))
		s.Each(two.WaysTo(before, n[2].B.Client), kit.Pods(n[1].A))
	}
}
