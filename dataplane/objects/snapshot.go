package objects

import (
	"hash/maphash"
	"net/netip"
	"slices"
)

// Snapshot is the last known state of every object. The zero value is empty
// and ready to use. It is not safe for concurrent use. Its maps are to be read,
// and changed only by Apply.
type Snapshot struct {
	Node         *Node // nil while unknown
	Local        LocalAddrs
	ServiceCIDRs map[string]ServiceCIDR
	Services     map[Name]Service
	Slices       map[Name][]EndpointSlice // by Service, sorted by name

	vips  map[netip.Addr]int // Services with this ClusterIP
	outer map[netip.Addr]int // Services with this external IP or ingress address
	// addrs are numbers of endpoints by a hash of their address: two that have the same are a
	// search in vain.
	addrs map[uint32]int32
	seed  maphash.Seed
}

func (s *Snapshot) hash(a netip.Addr) uint32 { return uint32(maphash.Comparable(s.seed, a)) }

// IsClusterIP tells whether some Service has this ClusterIP. Such an address is
// no place to forward to: it exists only through a dataplane.
func (s *Snapshot) IsClusterIP(a netip.Addr) bool { return s.vips[a] > 0 }

// IsExternalIP tells whether some Service has this external IP or load balancer
// address. Endpoints there are odd, but can be meant.
func (s *Snapshot) IsExternalIP(a netip.Addr) bool { return s.outer[a] > 0 }

// IsNodeIP tells whether an address is the own node's.
func (s *Snapshot) IsNodeIP(a netip.Addr) bool {
	return s.Node != nil && slices.Contains(s.Node.InternalIPs, a) || slices.Contains(s.Local, a)
}

// Touched is what a change may alter.
type Touched struct {
	Services []Name         // whose forwarding may differ
	Slice    *EndpointSlice // of a slice alone: as it was, empty if there was none
	Node     bool           // what all Services share
	All      bool           // every Service (the node's zone and addresses matter to each)
}

// Apply takes a change in and says what it may alter. A slice that moves to
// another Service is a Gone for the old place followed by the slice itself.
func (s *Snapshot) Apply(c Change) Touched {
	s.make()
	switch {
	case c.Service != nil:
		return Touched{Services: s.setService(c.Service.Name, c.Service)}
	case c.Slice != nil:
		was := s.setSlice(c.Slice.Service, c.Slice.Name, c.Slice)
		return Touched{Services: []Name{c.Slice.Service}, Slice: &was}
	case c.Node != nil:
		return s.setNode(*c.Node)
	case c.ServiceCIDR != nil:
		s.ServiceCIDRs[c.ServiceCIDR.Name] = *c.ServiceCIDR
		return Touched{Node: true}
	case c.Local != nil:
		old := s.Local
		s.Local = *c.Local
		return Touched{Node: true, Services: s.servicesAt(difference(old, s.Local))}
	case c.Gone != nil:
		return s.gone(*c.Gone)
	}
	return Touched{}
}

func (s *Snapshot) make() {
	if s.Services != nil {
		return
	}
	s.ServiceCIDRs = map[string]ServiceCIDR{}
	s.Services, s.Slices = map[Name]Service{}, map[Name][]EndpointSlice{}
	s.vips, s.outer = map[netip.Addr]int{}, map[netip.Addr]int{}
	s.addrs, s.seed = map[uint32]int32{}, maphash.MakeSeed()
}

func (s *Snapshot) gone(g Gone) Touched {
	switch g.Kind {
	case KindService:
		return Touched{Services: s.setService(g.Name, nil)}
	case KindSlice:
		was := s.setSlice(g.Service, g.Name, nil)
		return Touched{Services: []Name{g.Service}, Slice: &was}
	case KindNode:
		if s.Node != nil {
			n := *s.Node
			n.Leaving = true // its addresses stay valid until this process ends
			s.Node = &n
		}
		return Touched{Node: true}
	case KindServiceCIDR:
		delete(s.ServiceCIDRs, g.Name.Name)
		return Touched{Node: true}
	}
	return Touched{}
}

// setNode replaces the Node. One that is registered anew has no addresses and no
// pod networks for a while: then the old ones stay, as kube-proxy keeps the node
// IPs it started with.
func (s *Snapshot) setNode(n Node) Touched {
	old := s.Node
	if old != nil && len(n.InternalIPs) == 0 {
		n.InternalIPs = old.InternalIPs
	}
	if old != nil && len(n.PodCIDRs) == 0 {
		n.PodCIDRs = old.PodCIDRs
	}
	s.Node = &n
	return Touched{Node: true, All: old == nil || old.Zone != n.Zone || !slices.Equal(old.InternalIPs, n.InternalIPs) || !slices.Equal(old.PodCIDRs, n.PodCIDRs)}
}

// difference are the addresses in one of two lists.
func difference(a, b []netip.Addr) []netip.Addr {
	other := func(in []netip.Addr) func(netip.Addr) bool {
		return func(x netip.Addr) bool { return slices.Contains(in, x) }
	}
	return append(slices.DeleteFunc(slices.Clone(a), other(b)), slices.DeleteFunc(slices.Clone(b), other(a))...)
}

// servicesAt are the Services with endpoints at some addresses.
func (s *Snapshot) servicesAt(addrs []netip.Addr) []Name {
	var out []Name
	for _, a := range addrs {
		if s.addrs[s.hash(a)] > 0 {
			out = append(out, s.endpointsAt(a)...)
		}
	}
	return out
}

// setService replaces a Service, nil for none. Others are touched when an
// address becomes one of a Service, or is one no more, while they have an
// endpoint there. That is mostly somebody's mistake and rare, so these are
// searched for.
func (s *Snapshot) setService(name Name, svc *Service) []Name {
	old := s.Services[name]
	var new Service
	if svc != nil {
		new = *svc
		s.Services[name] = new
	} else {
		delete(s.Services, name)
	}
	turned := slices.Concat(
		count(s.vips, new.ClusterIPs, 1), count(s.vips, old.ClusterIPs, -1),
		count(s.outer, new.outer(), 1), count(s.outer, old.outer(), -1))
	return append([]Name{name}, s.servicesAt(turned)...)
}

func (s Service) outer() []netip.Addr { return slices.Concat(s.ExternalIPs, s.LoadBalancerIPs) }

// count adds to the addresses' numbers and returns those that came to be or
// ceased.
func count(in map[netip.Addr]int, addrs []netip.Addr, by int) (turned []netip.Addr) {
	for _, a := range addrs {
		was := in[a]
		in[a] = was + by
		if in[a] == 0 {
			delete(in, a)
		}
		if was == 0 || was+by == 0 {
			turned = append(turned, a)
		}
	}
	return turned
}

// endpointsAt are the Services with an endpoint at an address.
func (s *Snapshot) endpointsAt(a netip.Addr) []Name {
	var out []Name
	for svc, all := range s.Slices {
		for _, sl := range all {
			if slices.ContainsFunc(sl.Endpoints, func(e Endpoint) bool { return e.Addr == a }) {
				out = append(out, svc)
				break
			}
		}
	}
	return out
}

// EndpointsAt is how many endpoints have an address, in all slices, and may be more.
func (s *Snapshot) EndpointsAt(a netip.Addr) int { return int(s.addrs[s.hash(a)]) }

// setSlice replaces a slice, nil for none, and returns what it was.
func (s *Snapshot) setSlice(svc, name Name, sl *EndpointSlice) (was EndpointSlice) {
	was = EndpointSlice{Name: name, Service: svc}
	all := s.Slices[svc]
	i, had := slices.BinarySearchFunc(all, name, func(sl EndpointSlice, n Name) int { return sl.Name.Compare(n) })
	if had {
		was = all[i]
		s.countEndpoints(was, -1)
	}
	switch {
	case sl != nil && had:
		all[i] = *sl
	case sl != nil:
		all = slices.Insert(all, i, *sl)
	case had:
		all = slices.Delete(all, i, i+1)
	}
	if sl != nil {
		s.countEndpoints(*sl, 1)
	}
	if s.Slices[svc] = all; len(all) == 0 {
		delete(s.Slices, svc)
	}
	return was
}

func (s *Snapshot) countEndpoints(sl EndpointSlice, by int32) {
	for _, e := range sl.Endpoints {
		h := s.hash(e.Addr)
		if s.addrs[h] += by; s.addrs[h] == 0 {
			delete(s.addrs, h)
		}
	}
}
