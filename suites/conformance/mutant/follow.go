package mutant

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// followMutations are wrong about what there was before a change: rules that another
// agent left, and connections through a Service.
func followMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"found-endpoints-trusted":       foundTrusted,
		"tcp-flows-end-with-any-change": flowsEnd(objects.TCP, said),
		"udp-flows-end-with-any-change": flowsEnd(objects.UDP, said),
		"tcp-flows-end-with-affinity":   flowsEnd(objects.TCP, affinitySaid),
		"last-endpoint-removal-lost":    lastRemovalLost,
		"host-endpoints-left-out":       hostEndpointsLeftOut,
		"endpoints-counted-by-slice":    countedBySlice,
	}
}

// foundTrusted takes, when the agent starts, the endpoints that it finds in the kernel
// for those of the API; it follows what changes from then on.
func foundTrusted(c *changes) {
	started := false
	c.plan = func(p *plan.Plan) {
		if !started {
			started = true
			services(func(_ objects.Name, s *plan.Service) {
				for i := range s.Frontends {
					trust(p, &s.Frontends[i])
				}
			})(p)
		}
	}
}

// slot is a line of nftables.Path that shows an endpoint.
var slot = regexp.MustCompile(`(?m)-slots-\d+: .* -> (\S+) \. (\d+)$`)

// trust is about frontends that have one route and remember no client: all endpoints
// that Path shows are that route's.
func trust(p *plan.Plan, f *plan.Frontend) {
	if f.Key.IsWildcard() || f.Inside != nil || f.Affinity > 0 || f.Outside.Action != plan.Forward {
		return
	}
	text, err := nftables.Path(p, f.Key, 0)
	if err != nil {
		return // there are no rules yet
	}
	var found []plan.Endpoint
	for _, m := range slot.FindAllStringSubmatch(text, -1) {
		addr, bad := netip.ParseAddr(m[1])
		port, wrong := strconv.ParseUint(m[2], 10, 16)
		if bad == nil && wrong == nil {
			local := slices.ContainsFunc(f.Outside.Endpoints, func(e plan.Endpoint) bool { return e.Addr == addr && e.Local })
			found = append(found, plan.Endpoint{Addr: addr, Port: uint16(port), Local: local})
		}
	}
	if len(found) > 0 {
		slices.SortFunc(found, plan.Endpoint.Compare)
		f.Outside.Endpoints = found
	}
}

// flowsEnd has connection tracking forget the flows of a protocol through a Service
// with each change of what is said of it, once it had endpoints.
func flowsEnd(protocol objects.Protocol, said func(objects.Name, plan.Service) string) func(*changes) {
	return func(c *changes) {
		last := map[objects.Name]string{}
		c.plan = func(p *plan.Plan) {
			through := flowsThrough{protocol, map[netip.AddrPort]bool{}}
			services(func(name objects.Name, s *plan.Service) {
				was, now := last[name], said(name, *s)
				last[name] = now
				if was != now && strings.Contains(was, string(plan.Forward)) {
					through.add(s.Frontends, p.Node)
				}
			})(p)
			if len(through.at) > 0 {
				_ = forgetThose(through, familiesOf(through.at)...) // what is gone already is no error
			}
		}
	}
}

// said is all that the plan says of a Service.
func said(name objects.Name, s plan.Service) string {
	return (&plan.Plan{Services: map[objects.Name]plan.Service{name: s}}).String()
}

// affinitySaid is what it says of affinity, where there are endpoints.
func affinitySaid(_ objects.Name, s plan.Service) string {
	f := served(s)
	return fmt.Sprint(f.Outside.Action, f.Affinity)
}

// served is a frontend of a Service that leads somewhere, or none.
func served(s plan.Service) (out plan.Frontend) {
	for _, f := range s.Frontends {
		if f.Outside.Action == plan.Forward {
			return f
		}
	}
	return out
}

func familiesOf(at map[netip.AddrPort]bool) []netlink.InetFamily {
	var out []netlink.InetFamily
	for a := range at {
		family := netlink.InetFamily(unix.AF_INET6)
		if a.Addr().Is4() {
			family = unix.AF_INET
		}
		if !slices.Contains(out, family) {
			out = append(out, family)
		}
	}
	return out
}

// flowsThrough matches the flows of a protocol to destinations.
type flowsThrough struct {
	protocol objects.Protocol
	at       map[netip.AddrPort]bool
}

func (f flowsThrough) add(fronts []plan.Frontend, n plan.Node) {
	for _, fr := range fronts {
		addrs := []netip.Addr{fr.Key.Addr}
		if fr.Key.IsNodePort() {
			addrs = n.Addrs
		}
		for _, a := range addrs {
			if fr.Key.Protocol == f.protocol {
				f.at[netip.AddrPortFrom(a, fr.Key.Port)] = true
			}
		}
	}
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f flowsThrough) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	number := map[objects.Protocol]uint8{objects.TCP: unix.IPPROTO_TCP, objects.UDP: unix.IPPROTO_UDP}[f.protocol]
	to, ok := netip.AddrFromSlice(flow.Forward.DstIP)
	return ok && flow.Forward.Protocol == number && f.at[netip.AddrPortFrom(to.Unmap(), flow.Forward.DstPort)]
}

// lastRemovalLost leaves a Service's rules as they were with the change that takes its last
// endpoints away: as a change that failed, and was not tried again.
func lastRemovalLost(c *changes) {
	last := map[objects.Name]plan.Service{}
	forwards := func(f plan.Frontend) bool {
		return f.Outside.Action == plan.Forward || f.Inside != nil && f.Inside.Action == plan.Forward
	}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		was := last[name]
		if slices.ContainsFunc(was.Frontends, forwards) && len(s.Frontends) == len(was.Frontends) && !slices.ContainsFunc(s.Frontends, forwards) {
			s.Frontends = was.Frontends
			return
		}
		last[name] = *s
	})
}

// hostEndpointsLeftOut uses no endpoint that is not in the pods' networks.
func hostEndpointsLeftOut(c *changes) {
	c.plan = func(p *plan.Plan) {
		pod := func(e plan.Endpoint) bool {
			return slices.ContainsFunc(p.Node.LocalPods, func(c netip.Prefix) bool { return c.Contains(e.Addr) })
		}
		leave := func(r *plan.Route) {
			r.Endpoints = slices.DeleteFunc(r.Endpoints, func(e plan.Endpoint) bool { return !pod(e) })
			if r.Action == plan.Forward && len(r.Endpoints) == 0 {
				r.Action = plan.Reject
			}
		}
		services(func(_ objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				leave(&s.Frontends[i].Outside)
				if s.Frontends[i].Inside != nil {
					leave(s.Frontends[i].Inside)
				}
			}
		})(p)
	}
}

// countedBySlice gives an endpoint a share for each slice that it is in.
func countedBySlice(c *changes) {
	var mu sync.Mutex // guards in, which watches write and the Loop reads
	in := map[string]map[string][]string{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		mu.Lock()
		defer mu.Unlock()
		of := s.Labels[discoveryv1.LabelServiceName]
		if in[of] == nil {
			in[of] = map[string][]string{}
		}
		in[of][s.Name] = nil
		for _, e := range s.Endpoints {
			in[of][s.Name] = append(in[of][s.Name], e.Addresses...)
		}
	})(c)
	c.plan = services(func(name objects.Name, s *plan.Service) {
		mu.Lock()
		defer mu.Unlock()
		for i := range s.Frontends {
			r := &s.Frontends[i].Outside
			for _, e := range slices.Clone(r.Endpoints) {
				more := -1
				for _, addrs := range in[name.Name] {
					if slices.Contains(addrs, e.Addr.String()) {
						more++
					}
				}
				r.Endpoints = append(r.Endpoints, slices.Repeat([]plan.Endpoint{e}, max(0, more))...)
			}
		}
	})
}
