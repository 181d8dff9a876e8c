package behaviours

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func tcpConnectionKeptAtVIP() kit.Behaviour {
	return kit.Behaviour{
		ID: "tcp-connection-kept-at-vip", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "TCP connections to the address of a load balancer in VIP mode, or to an external IP, of a pod, a node and a host outside, stay whole while endpoints, ports and addresses of their Service come and go and its affinity, policies, source ranges and labels change, and as long as no endpoint goes no new one fails, and while endpoints and ports change no datagram of the pod is lost.",
		Promises: []promise.Promise{promise.TCP, promise.ClientsUnaware, promise.Ingress, promise.ExternalIPs, promise.UDP},
		Writes:   kit.SinceClass,
		Needs:    []kit.Need{kit.NeedNodes},
		Long:     true,
		Run: func(s *kit.Spec) {
			n, vip, second := s.Nodes, s.FreeAddr(), s.FreeAddr()
			external, give := externalIP(s)
			svc := s.Service(kit.LoadBalanced, kit.Both, give)
			svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
			svc.Endpoints(n[0].A.Ready(), n[1].A.Ready())
			var ways, open, loads []kit.Way
			for _, a := range append(external, vip) {
				pod, node, host := svc.WaysTo(a, n[3].B.Client), svc.WaysTo(a, n[3].Client), svc.WaysTo(a, s.HostBeyond(n[3])) // by TCP, and UDP
				ways = slices.Concat(ways, pod, node, host)
				open = append(open, pod[0], node[0], host[0])
				loads = append(append(loads, pod...), host[0])
			}
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
			stay := stand(s, open)
			two, three := kit.ReadyAll([]*kit.Pod{n[0].A, n[1].A}), kit.ReadyAll([]*kit.Pod{n[0].A, n[1].A, n[2].A})
			all := kit.Pods(n[0].A, n[1].A, n[2].A)
			svc.Endpoints(three...)
			s.Each(ways, all)
			stay()
			s.UnderLoad(loads, func() { // of endpoints none goes: it may owe an answer
				svc.Endpoints(append(three, n[2].B.NotReady())...)
				heard(s, n[3].B.Client)
				svc.Update(func(o *corev1.Service) { o.Spec.Ports = append(o.Spec.Ports, kit.Port("more", corev1.ProtocolTCP, 81)) })
				heard(s, n[3].B.Client)
				svc.Ingress(corev1.LoadBalancerIPModeVIP, second, vip)
				its := svc.WaysTo(second, n[3].B.Client)[:2]
				s.Each(its, all)
				stay()
				svc.Ingress(corev1.LoadBalancerIPModeVIP, vip)
				s.Each(its, kit.Unreachable())
				s.Each(ways, all)
				stay()
			}, n[0].A.Client, n[1].A.Client, n[2].A.Client)
			svc.Endpoints(append(three, n[3].A.Ready())...) // of the node beyond which the host is: each policy allows it
			s.Each(ways, kit.Pods(n[0].A, n[1].A, n[2].A, n[3].A))
			changeFields(s, svc, open, n[0].A.Client, n[1].A.Client, n[2].A.Client, n[3].A.Client)
			stay()
			svc.Endpoints(two...)
			s.Each(ways, kit.Pods(n[0].A, n[1].A))
			stay()
		},
	}
}

// changeFields changes what a Service says beside its ports and endpoints, and each time allows some ways by TCP, of
// which no new connection fails.
func changeFields(s *kit.Spec, svc *kit.Service, ways []kit.Way, servers ...kit.Client) {
	var sources []string
	for _, way := range ways {
		sources = append(sources, kit.Alone(way.From.Addr(s.Family)))
	}
	changes := []func(*corev1.Service){
		kit.Sticky(600),
		kit.NotSticky,
		kit.ExternalLocal, kit.ExternalCluster,
		func(o *corev1.Service) { o.Labels = map[string]string{"tier": "web"} },
	}
	if s.Has(kit.FeatureSourceRanges) {
		changes = append(changes, kit.SourceRanges(sources...), func(o *corev1.Service) { o.Spec.LoadBalancerSourceRanges = nil })
	}
	s.UnderLoad(ways, func() {
		for _, change := range changes {
			svc.Update(change)
			heard(s, s.PodClients()...)
		}
	}, servers...)
}
