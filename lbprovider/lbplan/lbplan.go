// Package lbplan decides what the load balancer of one Service is to do: from
// a Service and the nodes chosen by the service controller to an LB (listeners,
// servers, source ranges, affinity, health check), or to a Refusal that says
// why this kind of load balancer cannot serve it.
//
// It is pure: no I/O, no clock, no log. A Service is served whole or not at
// all; there is no partly planned LB.
package lbplan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// MaxPorts bounds the listeners of one Service: each has its own health
	// checks against every node.
	MaxPorts = 64
	// maxNodeName is the API's own limit (a DNS-1123 subdomain).
	maxNodeName = 253
	// kubeProxyHealthz is where a node answers for eTP=Cluster (KEP-3458: the
	// node proxy's /healthz, not the node's Ready condition).
	kubeProxyHealthz = 10256
	// defaultAffinity is v1.DefaultClientIPServiceAffinitySeconds.
	defaultAffinity = 10800 * time.Second
)

// Family is an IP family in the words of the names we derive from it.
type Family string

const (
	V4 Family = "v4"
	V6 Family = "v6"
)

// FamilyOf returns the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return V4
	}
	return V6
}

// LB is everything the load balancer of one Service does.
type LB struct {
	Service   string   // namespace/name
	Families  []Family // of the listeners, in the Service's order
	Ports     []uint16 // of the listeners, in the Service's order
	Listeners []Listener
	Check     Check
	// Sources are the only client networks let in; nil lets everybody in. A
	// family without an entry lets nobody in once the list is not empty.
	Sources  []netip.Prefix
	Affinity time.Duration // ClientIP affinity; 0 is none
	Pinned   netip.Addr    // spec.loadBalancerIP, invalid if not asked for
}

// Listener is one port of one family.
type Listener struct {
	Port    uint16
	Family  Family
	Servers []Server // by node name
}

// Server is a node as one listener reaches it.
type Server struct {
	Node string
	Addr netip.AddrPort // node address and nodePort
}

// Check is the HTTP health check of every server.
type Check struct {
	Port uint16
	Path string
}

// Serves says whether a node is reached by this family. Where none is reached by any, as
// before the first node, there is nothing to choose by: then all are served.
func (lb LB) Serves(f Family) bool {
	any := false
	for _, l := range lb.Listeners {
		if len(l.Servers) > 0 && l.Family == f {
			return true
		}
		any = any || len(l.Servers) > 0
	}
	return !any
}

// Refusal says why a Service is not served. Its text is meant for the Event.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// Build plans the load balancer of svc over nodes. The result does not depend
// on the order of nodes. An error is always a *Refusal.
func Build(svc *v1.Service, nodes []*v1.Node) (LB, error) {
	lb := LB{Service: svc.Namespace + "/" + svc.Name}
	for _, step := range []func(*LB, *v1.Service) error{families, ports, check, sources, affinity, pinned} {
		if err := step(&lb, svc); err != nil {
			return LB{}, err
		}
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range svc.Spec.Ports {
		for _, f := range lb.Families {
			servers, err := serversFor(nodes, f, uint16(p.NodePort))
			if err != nil {
				return LB{}, err
			}
			lb.Listeners = append(lb.Listeners, Listener{Port: uint16(p.Port), Family: f, Servers: servers})
		}
	}
	return lb, nil
}

func families(lb *LB, svc *v1.Service) error {
	for _, f := range svc.Spec.IPFamilies {
		switch f {
		case v1.IPv4Protocol:
			lb.Families = append(lb.Families, V4)
		case v1.IPv6Protocol:
			lb.Families = append(lb.Families, V6)
		default:
			return refuse("unknown IP family %q", f)
		}
	}
	if len(lb.Families) == 0 {
		return refuse("the Service has no spec.ipFamilies")
	}
	return nil
}

func ports(lb *LB, svc *v1.Service) error {
	n := len(svc.Spec.Ports)
	if n == 0 || n > MaxPorts {
		return refuse("%d ports: this load balancer serves 1 to %d", n, MaxPorts)
	}
	for _, p := range svc.Spec.Ports {
		proto := p.Protocol
		if proto == "" {
			proto = v1.ProtocolTCP
		}
		if proto != v1.ProtocolTCP {
			return refuse("port %d/%s: this load balancer forwards TCP only; no port of the Service is served", p.Port, proto)
		}
		if p.NodePort == 0 {
			return refuse("port %d/TCP has no nodePort (allocateLoadBalancerNodePorts=false?): this load balancer reaches nodes by nodePort only", p.Port)
		}
		if !isPort(p.Port) || !isPort(p.NodePort) {
			return refuse("port %d, nodePort %d: not a port number", p.Port, p.NodePort)
		}
		if slices.Contains(lb.Ports, uint16(p.Port)) {
			return refuse("port %d/TCP is listed twice", p.Port)
		}
		lb.Ports = append(lb.Ports, uint16(p.Port))
	}
	return nil
}

func isPort(p int32) bool { return p > 0 && p < 1<<16 }

// CheckPath is what every node is asked for, whichever port answers.
const CheckPath = "/healthz"

// check follows the cloud providers: eTP=Local asks the Service's own
// healthCheckNodePort, Cluster the node proxy's /healthz.
func check(lb *LB, svc *v1.Service) error {
	lb.Check = Check{Port: kubeProxyHealthz, Path: CheckPath}
	if svc.Spec.ExternalTrafficPolicy != v1.ServiceExternalTrafficPolicyLocal {
		return nil
	}
	if !isPort(svc.Spec.HealthCheckNodePort) {
		return refuse("externalTrafficPolicy=Local without a healthCheckNodePort")
	}
	lb.Check.Port = uint16(svc.Spec.HealthCheckNodePort)
	return nil
}

// sources never widens what was asked for: one entry that cannot be read
// refuses the Service. API validation trims white space, so this does too.
func sources(lb *LB, svc *v1.Service) error {
	ranges := svc.Spec.LoadBalancerSourceRanges
	if a := svc.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]; len(ranges) == 0 && strings.TrimSpace(a) != "" {
		ranges = strings.Split(a, ",")
	}
	for _, s := range ranges {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil || p.Addr().Is4In6() {
			return refuse("loadBalancerSourceRanges: %q is not a network in CIDR form", s)
		}
		lb.Sources = append(lb.Sources, p.Masked())
	}
	slices.SortFunc(lb.Sources, comparePrefix)
	lb.Sources = slices.Compact(lb.Sources)
	return nil
}

func comparePrefix(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(a.Bits(), b.Bits())
}

func affinity(lb *LB, svc *v1.Service) error {
	switch svc.Spec.SessionAffinity {
	case v1.ServiceAffinityNone, "":
		return nil
	case v1.ServiceAffinityClientIP:
	default:
		return refuse("unknown sessionAffinity %q", svc.Spec.SessionAffinity)
	}
	lb.Affinity = defaultAffinity
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		s := *c.ClientIP.TimeoutSeconds
		if s <= 0 || s > 86400 { // the API's own bounds
			return refuse("sessionAffinityConfig: timeoutSeconds %d is not within 1 to 86400", s)
		}
		lb.Affinity = time.Duration(s) * time.Second
	}
	return nil
}

func pinned(lb *LB, svc *v1.Service) error {
	s := strings.TrimSpace(svc.Spec.LoadBalancerIP)
	if s == "" {
		return nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		return refuse("loadBalancerIP: %q is not an IP address", s)
	}
	if !slices.Contains(lb.Families, FamilyOf(a)) {
		return refuse("loadBalancerIP %s: the Service has no such IP family", a)
	}
	lb.Pinned = a
	return nil
}

// serversFor uses each node's first InternalIP of the family. A node without
// one cannot be reached by this family and is no server of it.
func serversFor(nodes []*v1.Node, f Family, nodePort uint16) ([]Server, error) {
	var out []Server
	for _, n := range nodes {
		if n.Name == "" || len(n.Name) > maxNodeName {
			return nil, refuse("node name %.40q… is not valid", n.Name)
		}
		if a, ok := internalIP(n, f); ok {
			out = append(out, Server{Node: n.Name, Addr: netip.AddrPortFrom(a, nodePort)})
		}
	}
	return slices.CompactFunc(out, func(a, b Server) bool { return a.Node == b.Node }), nil
}

func internalIP(n *v1.Node, f Family) (netip.Addr, bool) {
	for _, na := range n.Status.Addresses {
		if na.Type != v1.NodeInternalIP {
			continue
		}
		if a, err := netip.ParseAddr(na.Address); err == nil && a.Zone() == "" && FamilyOf(a) == f {
			return a.Unmap(), true
		}
	}
	return netip.Addr{}, false
}
