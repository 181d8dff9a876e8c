package plan

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// frontends are those of one port in one family: the ClusterIP, the addresses
// from outside, and for types NodePort and LoadBalancer the node port.
func (b *builder) frontends(vip netip.Addr, port objects.ServicePort) []Frontend {
	group := Key{IPv6: vip.Is6(), Addr: vip, Protocol: port.Protocol, Port: port.Port}
	eps := b.endpoints(port, vip.Is6())
	c := chosen{cluster: b.usable(b.hinted(eps)), local: b.usable(onlyLocal(eps))}
	c.anywhere = len(b.usable(eps).Endpoints) > 0

	internal := c.route(b.svc.Internal, Drop)
	internal.Masquerade = b.internally(vip.Is6())
	out := []Frontend{{Key: group, Kind: ClusterIP, Outside: internal}}
	outside, inside := b.external(c)
	add := func(kind Kind, addr netip.Addr, port uint16) {
		f := Frontend{Key: group, Kind: kind, Outside: outside, Inside: inside}
		f.Key.Addr, f.Key.Port = addr, port
		if kind == LoadBalancer {
			f.Restricted, f.Sources = b.sources(vip.Is6())
		}
		out = append(out, f)
	}
	for _, a := range ofFamily(b.svc.LoadBalancerIPs, vip.Is6()) {
		add(LoadBalancer, a, port.Port)
	}
	for _, a := range ofFamily(b.svc.ExternalIPs, vip.Is6()) {
		add(ExternalIP, a, port.Port)
	}
	if port.NodePort != 0 && (b.svc.Type == objects.NodePort || b.svc.Type == objects.LoadBalancer) {
		add(NodePort, netip.Addr{}, port.NodePort)
	}
	for i := range out {
		out[i].Group, out[i].Affinity = group, b.svc.Affinity
		if i < 2 { // the ClusterIP; all others have the same routes
			out[i].Draining, out[i].Unready = unused(eps, out[i])
		} else {
			out[i].Draining, out[i].Unready = out[1].Draining, out[1].Unready
		}
	}
	return out
}

// external are the routes of an address from outside. Under policy Local the
// node's own connections and those of its pods go to the Cluster endpoints, as
// if they had gone up to the load balancer and come back.
func (b *builder) external(c chosen) (outside Route, inside *Route) {
	outside = c.route(b.svc.External, b.opt.NoLocal)
	if b.svc.External != objects.Local {
		outside.Masquerade = MasqAlways
		return outside, nil
	}
	short := c.route(objects.Cluster, b.opt.NoLocal)
	short.Masquerade = MasqNode
	return outside, &short
}

// sources are the source ranges of a family. A range of /0 lets everybody in.
// Where a range holds an address of the node, the load balancer's addresses are
// sources too: the node's own connection to such an address, if that is on one
// of its interfaces, comes from there.
func (b *builder) sources(v6 bool) (restricted bool, out []netip.Prefix) {
	for _, p := range b.svc.SourceRanges {
		if p.Addr().Is6() != v6 {
			continue
		}
		if p.Bits() == 0 {
			return false, nil
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return b.svc.BadRanges, nil
	}
	if n := b.snap.Node; n != nil && slices.ContainsFunc(n.InternalIPs, func(a netip.Addr) bool { return contains(out, a) }) {
		for _, a := range ofFamily(b.svc.LoadBalancerIPs, v6) {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return true, sortedPrefixes(out)
}

func ofFamily(in []netip.Addr, v6 bool) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(in), func(a netip.Addr) bool { return a.Is6() != v6 })
}

// internally is the rule for a ClusterIP.
func (b *builder) internally(v6 bool) Masquerade {
	switch {
	case b.opt.MasqueradeAll:
		return MasqAlways
	case b.opt.LocalLink != "":
		return MasqOffCluster
	}
	for _, p := range localPods(b.snap, b.opt) {
		if p.Addr().Is6() == v6 {
			return MasqOffCluster
		}
	}
	return KeepSource
}

// chosen are the routes to the endpoints that each traffic policy would use.
type chosen struct {
	cluster  Route
	local    Route
	anywhere bool // some endpoint is usable somewhere
}

// route applies a traffic policy. noLocal is for policy Local when all are
// elsewhere; for internal traffic it is Drop, whatever the options say (KEP-2086).
func (c chosen) route(policy objects.Policy, noLocal Action) Route {
	use := c.cluster
	if policy == objects.Local {
		use = c.local
	}
	switch {
	case len(use.Endpoints) > 0:
		return use
	case c.anywhere:
		return Route{Action: noLocal}
	}
	return Route{Action: Reject}
}
