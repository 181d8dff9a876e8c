package plan

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Build makes the plan of all Services. A snapshot without its Node gives a
// node without addresses: no node ports.
func Build(snap *objects.Snapshot, opt Options) *Plan {
	p := &Plan{Node: BuildNode(snap.Node, opt), Services: make(map[objects.Name]Service, len(snap.Services))}
	for name := range snap.Services {
		if s, ok := BuildService(snap, name, opt); ok {
			p.Services[name] = s
		}
	}
	return p
}

// BuildNode makes the part that all Services share.
func BuildNode(n *objects.Node, opt Options) Node {
	out := Node{ClusterCIDRs: sortedPrefixes(opt.ClusterCIDRs)}
	if n == nil {
		return out
	}
	out.Addrs = slices.Clone(n.InternalIPs)
	slices.SortFunc(out.Addrs, netip.Addr.Compare)
	out.Addrs = slices.Compact(out.Addrs)
	out.PodCIDRs = sortedPrefixes(n.PodCIDRs)
	return out
}

// BuildService makes the plan of one Service; ok is false when this proxy has
// nothing to do for it: unknown, headless, ExternalName, or another proxy's.
func BuildService(snap *objects.Snapshot, name objects.Name, opt Options) (out Service, ok bool) {
	svc, known := snap.Services[name]
	if !known || svc.ProxyName != "" || svc.Type == objects.ExternalName || len(svc.ClusterIPs) == 0 {
		return Service{}, false
	}
	b := builder{opt: opt, node: opt.Node, svc: svc, slices: snap.Slices[name]}
	for _, vip := range svc.ClusterIPs {
		for _, port := range svc.Ports {
			if port.Protocol == objects.SCTP {
				continue
			}
			out.Frontends = append(out.Frontends, b.frontends(vip, port)...)
		}
	}
	slices.SortFunc(out.Frontends, func(a, b Frontend) int { return a.Key.Compare(b.Key) })
	out.HealthCheck = b.healthCheck()
	return out, true
}

type builder struct {
	opt    Options
	node   string
	svc    objects.Service
	slices map[objects.Name]objects.EndpointSlice
}

// frontends are those of one port in one family: the ClusterIP and, for types
// NodePort and LoadBalancer, the node port.
func (b *builder) frontends(vip netip.Addr, port objects.ServicePort) []Frontend {
	eps := b.endpoints(port, vip.Is6())
	cluster := b.usable(eps)
	local := b.usable(onlyLocal(eps, b.node))
	internal := Frontend{
		Key:     Key{Kind: ClusterIP, IPv6: vip.Is6(), Addr: vip, Protocol: port.Protocol, Port: port.Port},
		Outside: route(b.svc.Internal, Drop, cluster, local),
	}
	internal.Outside.Masquerade = b.offCluster(vip.Is6())
	out := []Frontend{internal}
	external := b.svc.Type == objects.NodePort || b.svc.Type == objects.LoadBalancer
	if !external || port.NodePort == 0 {
		return out
	}
	np := Frontend{
		Key:     Key{Kind: NodePort, IPv6: vip.Is6(), Protocol: port.Protocol, Port: port.NodePort},
		Outside: route(b.svc.External, b.opt.NoLocal, cluster, local),
	}
	if b.svc.External == objects.Local {
		inside := route(objects.Cluster, b.opt.NoLocal, cluster, local)
		inside.Masquerade = MasqNode
		np.Inside = &inside
	} else {
		np.Outside.Masquerade = MasqAlways
	}
	return append(out, np)
}

func (b *builder) offCluster(v6 bool) Masquerade {
	for _, p := range b.opt.ClusterCIDRs {
		if p.Addr().Is6() == v6 {
			return MasqOffCluster
		}
	}
	return KeepSource
}

// route applies a traffic policy to the usable endpoints. noLocal is for a policy
// of Local when all are elsewhere; for internal traffic it is Drop, whatever the
// options say (KEP-2086).
func route(policy objects.Policy, noLocal Action, cluster, local []Endpoint) Route {
	use := cluster
	if policy == objects.Local {
		use = local
	}
	switch {
	case len(use) > 0:
		return Route{Action: Forward, Endpoints: use}
	case len(cluster) > 0:
		return Route{Action: noLocal}
	}
	return Route{Action: Reject}
}

// candidate is an endpoint with the conditions that decide about it.
type candidate struct {
	Endpoint
	node  string
	state objects.Endpoint
}

// endpoints gathers a port's endpoints of one family from all slices. One that
// appears twice (it moves between slices, or a new pod got the address of one
// that is still terminating) counts once, in its better state.
func (b *builder) endpoints(port objects.ServicePort, v6 bool) []candidate {
	found := map[netip.AddrPort]candidate{}
	for _, sl := range b.slices {
		if sl.Headless || sl.ProxyName != "" {
			continue
		}
		for _, p := range sl.Ports {
			if p.Name == port.Name && p.Protocol == port.Protocol {
				b.gather(found, sl.Endpoints, p.Port, v6)
			}
		}
	}
	out := make([]candidate, 0, len(found))
	for _, c := range found {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b candidate) int { return a.Compare(b.Endpoint) })
	return out
}

func (b *builder) gather(found map[netip.AddrPort]candidate, eps []objects.Endpoint, port uint16, v6 bool) {
	for _, e := range eps {
		if e.Addr.Is6() != v6 {
			continue
		}
		c := candidate{
			Endpoint: Endpoint{Addr: e.Addr, Port: port, Local: e.Node != "" && e.Node == b.node},
			node:     e.Node,
			state:    e,
		}
		at := netip.AddrPortFrom(e.Addr, port)
		if old, twice := found[at]; !twice || c.better(old) {
			found[at] = c
		}
	}
}

// better orders duplicates: ready, then serving, then not terminating; the
// node's name makes the choice independent of the slices' order.
func (c candidate) better(o candidate) bool {
	if a, b := c.rank(), o.rank(); a != b {
		return a > b
	}
	return c.node < o.node
}

func (c candidate) rank() int {
	r := 0
	if c.state.Ready {
		r += 4
	}
	if c.state.Serving {
		r += 2
	}
	if !c.state.Terminating {
		r++
	}
	return r
}

// usable are the ready endpoints or, with Fallback and without a ready one, the
// serving and terminating ones (KEP-1669). Terminating without serving is never
// used. A Service that publishes unready addresses has them ready in its slices.
func (b *builder) usable(eps []candidate) []Endpoint {
	var ready, terminating []Endpoint
	for _, c := range eps {
		switch {
		case c.state.Ready:
			ready = append(ready, c.Endpoint)
		case c.state.Serving && c.state.Terminating:
			terminating = append(terminating, c.Endpoint)
		}
	}
	if len(ready) > 0 || b.opt.Terminating == Ignore {
		return ready
	}
	return terminating
}

func onlyLocal(eps []candidate, node string) []candidate {
	var out []candidate
	for _, c := range eps {
		if c.node != "" && c.node == node {
			out = append(out, c)
		}
	}
	return out
}

// healthCheck counts local ready addresses over all ports (type LoadBalancer
// with external policy Local only).
func (b *builder) healthCheck() *HealthCheck {
	if b.svc.Type != objects.LoadBalancer || b.svc.External != objects.Local || b.svc.HealthCheckNodePort == 0 {
		return nil
	}
	seen := map[netip.Addr]bool{}
	hc := &HealthCheck{Port: b.svc.HealthCheckNodePort}
	for _, vip := range b.svc.ClusterIPs {
		for _, port := range b.svc.Ports {
			for _, c := range onlyLocal(b.endpoints(port, vip.Is6()), b.node) {
				if !c.state.Ready || seen[c.Addr] {
					continue
				}
				seen[c.Addr] = true
				if c.Addr.Is6() {
					hc.IPv6++
				} else {
					hc.IPv4++
				}
			}
		}
	}
	return hc
}

func sortedPrefixes(in []netip.Prefix) []netip.Prefix {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(out)
}
