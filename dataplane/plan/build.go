package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Build makes the plan of all Services. A snapshot without its Node gives a
// node without addresses: no node ports.
func Build(snap *objects.Snapshot, opt Options) *Plan {
	p := &Plan{Node: BuildNode(snap, opt), Services: make(map[objects.Name]Service, len(snap.Services))}
	for name := range snap.Services {
		if s, ok := BuildService(snap, name, opt); ok {
			p.Services[name] = s
		}
	}
	return p
}

// BuildNode makes the part that all Services share.
func BuildNode(snap *objects.Snapshot, opt Options) Node {
	out := Node{ClusterCIDRs: sortedPrefixes(opt.ClusterCIDRs)}
	for _, c := range snap.ServiceCIDRs {
		out.ServiceCIDRs = append(out.ServiceCIDRs, c.Prefixes...)
	}
	out.ServiceCIDRs = sortedPrefixes(out.ServiceCIDRs)
	if n := snap.Node; n != nil {
		out.Addrs = nodePortAddrs(n.InternalIPs, snap.Local, opt.NodePorts)
		out.PodCIDRs = podCIDRs(n.PodCIDRs, opt.ClusterCIDRs)
	}
	return out
}

// podCIDRs are the networks of the node's own pods. Where the Node has none of a
// family, its pods cannot be told from others', and all of the cluster count as
// its own, as with kube-proxy's detectLocalMode ClusterCIDR.
func podCIDRs(node, cluster []netip.Prefix) []netip.Prefix {
	out := slices.Clone(node)
	for _, c := range cluster {
		if !slices.ContainsFunc(node, func(p netip.Prefix) bool { return p.Addr().Is6() == c.Addr().Is6() }) {
			out = append(out, c)
		}
	}
	return sortedPrefixes(out)
}

// nodePortAddrs are the addresses that node ports are served at: the Node's first
// of each family, or all of the node's inside the networks given.
func nodePortAddrs(node []netip.Addr, local objects.LocalAddrs, at NodePortAddresses) []netip.Addr {
	var out []netip.Addr
	if len(at.Within) == 0 {
		for _, a := range node {
			if !slices.ContainsFunc(out, func(o netip.Addr) bool { return o.Is6() == a.Is6() }) {
				out = append(out, a)
			}
		}
	} else {
		for _, a := range slices.Concat(node, local) {
			if contains(at.Within, a) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// BuildService makes the plan of one Service; ok is false when this proxy has
// nothing to do for it: unknown, headless, ExternalName, or another proxy's.
func BuildService(snap *objects.Snapshot, name objects.Name, opt Options) (out Service, ok bool) {
	svc, known := snap.Services[name]
	if !known || svc.ProxyName != "" || svc.Type == objects.ExternalName || len(svc.ClusterIPs) == 0 {
		return Service{}, false
	}
	b := newBuilder(snap, svc, opt)
	for _, vip := range svc.ClusterIPs {
		out.Frontends = append(out.Frontends, Frontend{
			Key: Key{IPv6: vip.Is6(), Addr: vip}, Kind: ClusterIP, Outside: Route{Action: Reject},
		})
		for _, port := range svc.Ports {
			if port.Protocol != objects.SCTP || opt.SCTP {
				out.Frontends = append(out.Frontends, b.frontends(vip, port)...)
			}
		}
	}
	out.Frontends = distinct(out.Frontends)
	out.HealthCheck = b.healthCheck()
	out.Warnings = slices.Sorted(maps.Keys(b.warnings))
	return out, true
}

// distinct sorts frontends and keeps the first of each key: an address that is
// both the load balancer's and an external IP is one frontend.
func distinct(in []Frontend) []Frontend {
	slices.SortFunc(in, func(a, b Frontend) int { return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Kind, b.Kind)) })
	return slices.CompactFunc(in, func(a, b Frontend) bool { return a.Key == b.Key })
}

type builder struct {
	opt      Options
	node     string
	zone     string
	snap     *objects.Snapshot
	svc      objects.Service
	slices   map[objects.Name]objects.EndpointSlice
	warnings map[string]bool
}

func newBuilder(snap *objects.Snapshot, svc objects.Service, opt Options) *builder {
	b := &builder{opt: opt, node: opt.Node, snap: snap, svc: svc, slices: snap.Slices[svc.Name], warnings: map[string]bool{}}
	if snap.Node != nil {
		b.zone = snap.Node.Zone
	}
	return b
}

// frontends are those of one port in one family: the ClusterIP, the addresses
// from outside, and for types NodePort and LoadBalancer the node port.
func (b *builder) frontends(vip netip.Addr, port objects.ServicePort) []Frontend {
	group := Key{IPv6: vip.Is6(), Addr: vip, Protocol: port.Protocol, Port: port.Port}
	eps := b.endpoints(port, vip.Is6())
	c := chosen{cluster: b.usable(b.hinted(eps)), local: b.usable(onlyLocal(eps, b.node))}
	c.anywhere = len(b.usable(eps).Endpoints) > 0

	internal := c.route(b.svc.Internal, Drop)
	internal.Masquerade = b.offCluster(vip.Is6())
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
		out[i].Draining = draining(eps, out[i])
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

func (b *builder) offCluster(v6 bool) Masquerade {
	for _, p := range b.opt.ClusterCIDRs {
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
		if sl.Headless {
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
		if b.snap.IsClusterIP(e.Addr) {
			b.warnings[fmt.Sprintf("endpoint %s is the ClusterIP of a Service: left out", e.Addr)] = true
			continue
		}
		if b.snap.IsExternalIP(e.Addr) {
			b.warnings[fmt.Sprintf("endpoint %s is an external address of a Service: sent there as it is", e.Addr)] = true
		}
		c := candidate{
			Endpoint: Endpoint{Addr: e.Addr, Port: port, Local: e.Node != "" && e.Node == b.node, Host: b.snap.IsNodeIP(e.Addr)},
			node:     e.Node,
			state:    e,
		}
		at := netip.AddrPortFrom(e.Addr, port)
		if old, twice := found[at]; !twice || c.better(old) {
			found[at] = c
		}
	}
}

// better orders duplicates: not terminating (a new pod has the address of one
// that ends: kube-proxy's endpointslicecache decides so), then ready, then
// serving. The node's name and the hints make the choice independent of the
// slices' order.
func (c candidate) better(o candidate) bool {
	if a, b := c.rank(), o.rank(); a != b {
		return a > b
	}
	a, b := c.hints(), o.hints()
	return cmp.Or(cmp.Compare(c.node, o.node), slices.Compare(a.Zones, b.Zones), slices.Compare(a.Nodes, b.Nodes)) < 0
}

func (c candidate) hints() objects.Hints {
	if c.state.Hints == nil {
		return objects.Hints{}
	}
	return *c.state.Hints
}

func (c candidate) rank() int {
	r := 0
	if !c.state.Terminating {
		r += 4
	}
	if c.state.Ready {
		r += 2
	}
	if c.state.Serving {
		r++
	}
	return r
}

// usable leads to the ready endpoints or, with Fallback and without a ready one, to
// the serving and terminating ones (KEP-1669), of which there may be none either.
// Terminating without serving is never used. A Service that publishes unready
// addresses has them ready in its slices.
func (b *builder) usable(eps []candidate) Route {
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
		return Route{Action: Forward, Endpoints: ready}
	}
	return Route{Action: Forward, Endpoints: terminating, Terminating: true}
}

// hinted are the endpoints meant for this node's clients, policy Cluster only. The
// ready ones decide: if all have a hint for nodes and one names this node, or
// else all have one for zones and one names this zone, the others are left out.
// A hint that is missing anywhere, or a node without a zone, means all of them
// (KEP-2433, KEP-3015; without a ready endpoint there is nothing to choose from).
func (b *builder) hinted(eps []candidate) []candidate {
	byNode := func(h objects.Hints) []string { return h.Nodes }
	byZone := func(h objects.Hints) []string { return h.Zones }
	if out := meantFor(eps, b.node, byNode); out != nil {
		return out
	}
	if out := meantFor(eps, b.zone, byZone); out != nil {
		return out
	}
	return eps
}

// meantFor is nil if the hints of a kind do not decide.
func meantFor(eps []candidate, place string, hints func(objects.Hints) []string) []candidate {
	var out []candidate
	for _, c := range eps {
		if !c.state.Ready {
			continue
		}
		meant := hints(c.hints())
		if len(meant) == 0 {
			return nil
		}
		if slices.Contains(meant, place) {
			out = append(out, c)
		}
	}
	return out
}

// draining are the serving endpoints that no route of a frontend uses.
func draining(eps []candidate, f Frontend) []Endpoint {
	var out []Endpoint
	for _, c := range eps {
		used := slices.Contains(f.Outside.Endpoints, c.Endpoint) || f.Inside != nil && slices.Contains(f.Inside.Endpoints, c.Endpoint)
		if !used && (c.state.Serving || c.state.Ready) {
			out = append(out, c.Endpoint)
		}
	}
	return out
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
