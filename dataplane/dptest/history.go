package dptest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// History makes changes at random over a universe so small that Services meet:
// over an address, a node port, a slice that moves, an endpoint that is somebody's
// ClusterIP. All its addresses lie in Net.
type History struct {
	Objects objects.Snapshot // what the changes so far have made

	dice dice
}

// dice chooses: a random generator, or the bytes of a fuzzer.
type dice interface{ IntN(n int) int }

// NewHistory begins one.
func NewHistory(r *rand.Rand) *History { return &History{dice: r} }

// Options are choices at random.
func (h *History) Options() plan.Options {
	opt := defaults()
	opt.Terminating = pick(h.dice, plan.Fallback, plan.Ignore)
	opt.NoLocal = pick(h.dice, plan.Drop, plan.Reject)
	opt.SCTP = h.oneIn(4)
	if h.oneIn(4) {
		opt.ClusterCIDRs = opt.ClusterCIDRs[:h.dice.IntN(2)]
	}
	switch h.dice.IntN(8) {
	case 0, 1:
		opt.Local = plan.ByNodeCIDR
	case 2:
		opt.Local, opt.LocalLink = plan.ByBridge, plan.Link(PodB.link())
	case 3:
		opt.Local, opt.LocalLink = plan.ByLinkPrefix, "p*" // both pods'
	}
	switch h.dice.IntN(4) {
	case 0:
		opt.NodePorts.Within = prefixes("0.0.0.0/0", "::/0")
	case 1:
		opt.NodePorts.Within = prefixes("192.0.2.0/24")
	}
	return opt
}

// First is the complete state that a proxy starts with.
func (h *History) First() []objects.Change {
	out := h.took(nil)
	if !h.oneIn(8) {
		out = h.node()
	}
	local := Local()
	out = append(out, h.took(&objects.Change{Local: &local})...)
	for range h.dice.IntN(8) {
		out = append(out, h.Next()...)
	}
	return out
}

// Next is one change; two for a slice that moves to another Service.
func (h *History) Next() []objects.Change {
	switch k := h.dice.IntN(20); {
	case k < 7:
		s := h.service()
		return h.took(&objects.Change{Service: &s})
	case k < 9:
		return h.goneService()
	case k < 15:
		return h.slice()
	case k < 17:
		return h.goneSlice()
	case k < 18:
		return h.node()
	default:
		return h.serviceCIDR()
	}
}

func (h *History) took(changes ...*objects.Change) []objects.Change {
	var out []objects.Change
	for _, c := range changes {
		if c != nil {
			h.Objects.Apply(*c)
			out = append(out, *c)
		}
	}
	return out
}

func (h *History) oneIn(n int) bool { return h.dice.IntN(n) == 0 }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// some picks each with a chance of one in two.
func some[T any](d dice, of ...T) []T {
	return slices.DeleteFunc(slices.Clone(of), func(T) bool { return d.IntN(2) == 0 })
}

func named(kind string, i int) objects.Name {
	return objects.Name{Namespace: "default", Name: fmt.Sprint(kind, i)}
}

func (h *History) serviceName() objects.Name { return named("service-", h.dice.IntN(8)) }

// vip is a ClusterIP: nine of each family, for eight Services.
func (h *History) vip(v6 bool) netip.Addr {
	if v6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:10:96::%d", 1+h.dice.IntN(9)))
	}
	return netip.AddrFrom4([4]byte{10, 96, 0, byte(1 + h.dice.IntN(6))})
}

// outer is an address from outside: three of each family, one a ClusterIP at
// times and one the node's.
func (h *History) outer() netip.Addr {
	v6 := h.oneIn(2)
	switch k := h.dice.IntN(12); {
	case k == 0:
		return h.vip(v6)
	case k == 1 && v6:
		return netip.MustParseAddr("2001:db8:2::2")
	case k == 1:
		return netip.MustParseAddr("192.0.2.2")
	case v6:
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:cb::%d", 1+k%3))
	default:
		return netip.AddrFrom4([4]byte{203, 0, 113, byte(1 + k%3)})
	}
}

func (h *History) policy() objects.Policy { return pick(h.dice, objects.Cluster, objects.Local) }

func (h *History) service() objects.Service {
	s := objects.Service{
		Name:     h.serviceName(),
		Type:     pick(h.dice, objects.ClusterIP, objects.NodePort, objects.LoadBalancer, objects.LoadBalancer),
		Internal: h.policy(), External: h.policy(),
		Affinity: pick(h.dice, 0, 0, 0, time.Hour, 3*time.Hour), Created: int64(h.dice.IntN(3)),
	}
	switch h.dice.IntN(16) {
	case 0:
		s.Type = objects.ExternalName
	case 1:
		s.ProxyName = "other"
	}
	for _, v6 := range pick(h.dice, []bool{false}, []bool{true}, []bool{false, true}, []bool{true, false}, nil) {
		s.ClusterIPs = append(s.ClusterIPs, h.vip(v6))
	}
	for range h.dice.IntN(3) {
		s.ExternalIPs = append(s.ExternalIPs, h.outer())
	}
	if s.Type == objects.LoadBalancer {
		for range h.dice.IntN(3) {
			s.LoadBalancerIPs = append(s.LoadBalancerIPs, h.outer())
		}
		s.HealthCheckNodePort = uint16(pick(h.dice, 0, 31001, 31002))
		h.ranges(&s)
	}
	h.ports(&s)
	return s
}

func (h *History) ranges(s *objects.Service) {
	if h.oneIn(2) {
		return
	}
	s.BadRanges = h.oneIn(6)
	s.SourceRanges = some(h.dice, prefixes("192.0.2.0/24", "192.0.2.96/27", "198.51.100.7/32", "10.244.0.0/16",
		"2001:db8:2::/64", "2001:db8:7::/64", "fd00:10:244:1::/64")...)
	if h.oneIn(8) {
		s.SourceRanges = append(s.SourceRanges, prefix("0.0.0.0/0"))
	}
}

// ports are distinct in name and number, as the API has them. The name says
// protocol and number, so that a slice's port fits often.
func (h *History) ports(s *objects.Service) {
	for _, p := range protocols() {
		for _, number := range some(h.dice, uint16(80), 81) {
			if p == objects.SCTP && !h.oneIn(4) {
				continue
			}
			port := objects.ServicePort{Name: fmt.Sprint(p, number), Protocol: p, Port: number}
			if s.Type == objects.NodePort || s.Type == objects.LoadBalancer {
				port.NodePort = uint16(pick(h.dice, 0, 30001, 30002, 30003))
			}
			s.Ports = append(s.Ports, port)
		}
	}
}

func (h *History) goneService() []objects.Change {
	return h.took(&objects.Change{Gone: &objects.Gone{Kind: objects.KindService, Name: h.serviceName()}})
}

// place is where an endpoint may be, with its node.
type place struct {
	addr string
	node string
}

func places() []place {
	return []place{
		{"10.244.1.2", NodeName}, {"10.244.1.6", NodeName}, {"10.244.2.2", "there"}, {"10.244.2.3", "there"}, {"10.244.2.4", ""},
		{"192.0.2.1", NodeName}, {"192.0.3.2", "there"}, {"10.96.0.1", "there"}, {"10.96.0.2", "there"},
		{"fd00:10:244:1::2", NodeName}, {"fd00:10:244:1::6", NodeName}, {"fd00:10:244:2::2", "there"}, {"fd00:10:244:2::3", "there"},
		{"fd00:10:96::1", "there"},
	}
}

// manySlices is how many there are at most: some for each Service and family.
const manySlices = 32

func (h *History) slice() []objects.Change {
	sl := objects.EndpointSlice{Name: named("slice-", h.dice.IntN(manySlices)), Service: h.serviceName(), Headless: h.oneIn(12)}
	for _, p := range protocols() {
		for number := 80; number <= 81; number++ {
			if h.oneIn(5) {
				continue
			}
			sl.Ports = append(sl.Ports, objects.SlicePort{Name: fmt.Sprint(p, number), Protocol: p, Port: uint16(8000 + h.dice.IntN(3))})
		}
	}
	v6 := h.oneIn(2)
	hinted := h.oneIn(3)
	for _, at := range places() {
		addr := netip.MustParseAddr(at.addr)
		if addr.Is6() != v6 || h.oneIn(3) {
			continue
		}
		e := objects.Endpoint{Addr: addr, Node: at.node, Ready: !h.oneIn(3), Serving: !h.oneIn(3), Terminating: h.oneIn(4)}
		if hinted {
			e.Hints = &objects.Hints{Zones: some(h.dice, "a", "b"), Nodes: some(h.dice, NodeName, "there")}
		}
		sl.Endpoints = append(sl.Endpoints, e)
	}
	if owner, ok := ownerOf(&h.Objects, sl.Name); ok && owner != sl.Service {
		gone := &objects.Gone{Kind: objects.KindSlice, Name: sl.Name, Service: owner}
		return h.took(&objects.Change{Gone: gone}, &objects.Change{Slice: &sl})
	}
	return h.took(&objects.Change{Slice: &sl})
}

func (h *History) goneSlice() []objects.Change {
	name := named("slice-", h.dice.IntN(manySlices))
	owner, ok := ownerOf(&h.Objects, name)
	if !ok {
		return nil
	}
	return h.took(&objects.Change{Gone: &objects.Gone{Kind: objects.KindSlice, Name: name, Service: owner}})
}

func (h *History) node() []objects.Change {
	n := Node()
	n.Zone = pick(h.dice, "", "a", "b")
	n.Leaving = h.oneIn(8)
	switch h.dice.IntN(6) {
	case 0:
		n.InternalIPs = n.InternalIPs[:1]
	case 1:
		n.InternalIPs = slices.Concat([]netip.Addr{netip.MustParseAddr("192.0.2.2")}, n.InternalIPs)
	case 2:
		n.PodCIDRs = nil
	}
	return h.took(&objects.Change{Node: &n})
}

func (h *History) serviceCIDR() []objects.Change {
	name := fmt.Sprint("range-", h.dice.IntN(3))
	if _, have := h.Objects.ServiceCIDRs[name]; have && h.oneIn(2) {
		return h.took(&objects.Change{Gone: &objects.Gone{Kind: objects.KindServiceCIDR, Name: objects.Name{Name: name}}})
	}
	nets := some(h.dice, prefixes("10.96.0.0/24", "10.97.0.0/16", "fd00:10:96::/112")...)
	return h.took(&objects.Change{ServiceCIDR: &objects.ServiceCIDR{Name: name, Prefixes: nets}})
}

// Packets are about n different ones that the objects may say something of, with
// what the oracle says of them.
func (h *History) Packets(p *plan.Plan, n int) []Row {
	resolver := plan.NewResolver(p)
	var out []Row
	for range n {
		r := Row{
			From:  pick(h.dice, Outside, Foreign, PodA, PodB, Remote, Self),
			Proto: pick(h.dice, objects.TCP, objects.TCP, objects.UDP),
		}
		if h.oneIn(16) {
			r.Proto = objects.SCTP
		}
		r.To = h.target(p)
		outcome := resolver.Resolve(r.Packet())
		if slices.ContainsFunc(out, r.about) || bypassed(r.in(outcome), p.Node) {
			continue
		}
		r = r.in(outcome)
		r.Line = fmt.Sprintf("%s %s %s %s", r.From, r.Proto, r.To, r.Outcome())
		out = append(out, r)
	}
	return out
}

// target is an address and port: mostly a frontend's, else near one.
func (h *History) target(p *plan.Plan) netip.AddrPort {
	index := plan.Index(p)
	keys := slices.SortedFunc(maps.Keys(index), plan.Key.Compare)
	busy := slices.DeleteFunc(slices.Clone(keys), func(k plan.Key) bool { return index[k].Outside.Action != plan.Forward })
	if len(busy) > 0 && h.oneIn(2) {
		keys = busy
	}
	if len(keys) > 0 && !h.oneIn(5) {
		k := pick(h.dice, keys...)
		if !k.IsNodePort() {
			if k.IsWildcard() {
				k.Port = 82
			}
			return netip.AddrPortFrom(k.Addr, k.Port)
		}
		at := slices.DeleteFunc(Local(), func(a netip.Addr) bool { return a.Is6() != k.IPv6 })
		if len(p.Node.Addrs) > 0 && h.oneIn(2) {
			at = p.Node.Addrs
		}
		return netip.AddrPortFrom(pick(h.dice, at...), k.Port)
	}
	addr := pick(h.dice, h.vip(h.oneIn(2)), h.outer(), netip.MustParseAddr("10.97.3.4"), pick(h.dice, Local()...))
	return netip.AddrPortFrom(addr, pick(h.dice, uint16(80), 81, 82, 30001, 30004))
}

// bytesDice throws what a fuzzer says, and zeros when that is used up.
type bytesDice struct{ left []byte }

func (d *bytesDice) IntN(n int) int {
	if len(d.left) == 0 {
		return 0
	}
	out := int(d.left[0]) % n
	d.left = d.left[1:]
	return out
}
