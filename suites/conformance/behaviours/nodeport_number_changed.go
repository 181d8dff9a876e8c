package behaviours

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func nodePortNumberChanged() kit.Behaviour {
	return kit.Behaviour{
		ID: "nodeport-number-changed", Level: kit.Must, Profile: kit.ProfileCore,
		Says:     "A node port that gets another number is served at this one, and no more at the old one; a port that gets another name is served as before, at its ClusterIP, its node port and the address of its load balancer.",
		Promises: []promise.Promise{promise.NodePort, promise.ClusterIP, promise.PortName, promise.Synchronized},
		Writes:   kit.SinceClass,
		Upstream: "[sig-network] Networking Granular Checks: Services should update nodePort: http [Slow]",
		Serial:   true, // others may be given the node ports that it expects to be silent
		Run: func(s *kit.Spec) {
			svc, vip := atVIP(s)
			n, pod := s.Nodes[0], s.Nodes[1].A
			ways := func() []kit.Way { return svc.NodePortWays(n, s.Outside(), n.B.Client) }
			anew := func(mutate func(i int, p *corev1.ServicePort)) {
				svc.Update(func(o *corev1.Service) {
					for i := range o.Spec.Ports {
						mutate(i, &o.Spec.Ports[i])
					}
				})
				svc.Endpoints(pod.Ready())
			}
			spare := s.Service(kit.NodePorts, kit.Both)
			free := spare.Object().Spec.Ports
			spare.Delete()
			svc.Endpoints(pod.Ready())
			s.Each(ways(), kit.Pods(pod))
			for _, change := range []func(int, *corev1.ServicePort){
				func(i int, p *corev1.ServicePort) { p.NodePort = free[i].NodePort },
				func(_ int, p *corev1.ServicePort) { p.Name, p.NodePort = p.Name+"-other", 0 },
			} {
				old := ways()
				anew(change)
				if now := ways(); now[0].To == old[0].To || now[1].To == old[1].To {
					s.Inconclusive("the API gave a port again that it had")
				}
				s.Each(ways(), kit.Pods(pod))
				s.Each(old, kit.Unreachable())
			}
			anew(func(_ int, p *corev1.ServicePort) { p.Name += "-third" })
			s.Each(append(ways(), svc.Ways(n.B.Client)...), kit.Pods(pod))
			s.Each(svc.WaysTo(vip, n.B.Client), kit.Pods(pod))
		},
	}
}
