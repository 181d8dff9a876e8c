package behaviours

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

func addressesChangedWhileAway() kit.Behaviour {
	return kit.Behaviour{
		ID: "addresses-changed-while-away", Level: kit.Must, Profile: kit.ProfileVIP,
		Says:     "What changed while the agents were away is followed when they are back, at the addresses of load balancers and at external IPs too, by TCP and UDP: one that was exchanged, and is another Service's now, one whose Service is gone, a port that was taken away, at the ClusterIP and its node port too, and other endpoints.",
		Promises: []promise.Promise{promise.Synchronized, promise.Ingress, promise.ExternalIPs},
		Writes:   kit.SinceClass,
		Source:   []string{"https://github.com/kubernetes/kubernetes/issues/75360"},
		Needs:    []kit.Need{kit.NeedAgents},
		Serial:   true,
		Run: func(s *kit.Spec) {
			all := []*exchanged{exchange(s, atVIP, func(v *kit.Service, a netip.Addr) { v.Ingress(corev1.LoadBalancerIPModeVIP, a) })}
			if s.Has(kit.FeatureExternalIPs) {
				all = append(all, exchange(s, atExternalIP, func(v *kit.Service, a netip.Addr) {
					v.Update(func(o *corev1.Service) { o.Spec.ExternalIPs = []string{a.String()} })
				}))
			}
			s.WithoutAgents(func() {
				for _, x := range all {
					x.change()
				}
			})
			for _, x := range all {
				x.followed()
			}
		},
	}
}

// exchanged is what changes at a front while nobody looks: of one Service the address, the ports and the
// endpoints; another goes.
type exchanged struct {
	s         *kit.Spec
	svc, gone *kit.Service
	clients   []kit.Client
	silent    []kit.Way // which are to be answered no more
	before    netip.Addr
	after     netip.Addr
	heir      *kit.Service                   // of the address before
	put       func(*kit.Service, netip.Addr) // gives a Service its one address
}

// exchange makes what is to change, and sees it answered.
func exchange(s *kit.Spec, f front, put func(*kit.Service, netip.Addr)) *exchanged {
	svc, before := f(s)
	gone, also := f(s)
	x := &exchanged{s: s, svc: svc, gone: gone, clients: []kit.Client{s.Nodes[2].B.Client, s.Nodes[3].Client}, before: before, after: s.FreeAddr(), put: put}
	svc.Endpoints(s.Nodes[0].A.Ready())
	gone.Endpoints(s.Nodes[0].A.Ready())
	x.silent = gone.WaysTo(also, x.clients...)
	all := slices.Concat(x.silent, svc.WaysTo(before, x.clients...), svc.Ways(x.clients...))
	if svc.Object().Spec.Ports[0].NodePort != 0 {
		all = append(all, svc.NodePortWays(s.Nodes[2], x.clients...)...)
	}
	s.Each(all, kit.Pods(s.Nodes[0].A))
	x.heir, _ = f(s)
	x.heir.Endpoints(s.Nodes[3].A.Ready())
	return x
}

func (x *exchanged) change() {
	x.gone.Delete()
	x.put(x.svc, x.after)
	x.put(x.heir, x.before)
	for _, c := range x.clients {
		for _, at := range []netip.AddrPort{x.svc.At(x.after, "dns"), x.svc.ClusterIP("dns"), x.svc.NodePort(x.s.Nodes[2], "dns")} {
			if at.Port() != 0 {
				x.silent = append(x.silent, kit.Way{From: c, To: kit.UDP(at)})
			}
		}
	}
	x.svc.Update(func(o *corev1.Service) { o.Spec.Ports = o.Spec.Ports[:1] })
	x.svc.Endpoints(x.s.Nodes[1].A.Ready())
}

func (x *exchanged) followed() {
	x.s.Each(append(x.svc.WaysTo(x.after, x.clients...), x.svc.Ways(x.clients...)...), kit.Pods(x.s.Nodes[1].A))
	x.s.Each(x.heir.WaysTo(x.before, x.clients...), kit.Pods(x.s.Nodes[3].A))
	x.s.Each(x.silent, kit.Unreachable())
}
