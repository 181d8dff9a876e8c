// Package plan turns Kubernetes objects into the complete forwarding intent of
// one node. It is pure: no I/O, no clock, no kernel words.
//
//	Build(snapshot, options)  -> Plan          what every frontend does
//	Diff(old, new)            -> Changes       what a backend has to alter
//	Resolve(plan, packet)     -> Outcome       the oracle: what happens to a packet
//
// Resolve is the single statement of Service semantics. Every backend is held
// against it, and it is held against packet tables written by hand.
//
// Sources: KEP-1669 and KEP-1672 (terminating endpoints), KEP-2086 (internal
// traffic policy), KEP-2447 (service-proxy-name), KEP-563 (dual stack),
// KEP-3866 (node port addresses "primary"), KEP-1860 (ipMode), the "Virtual IPs
// and Service Proxies" reference, and pkg/proxy of Kubernetes v1.36.3.
//
// Not here yet: load-balancer VIPs, externalIPs, source ranges, session
// affinity, topology hints, SCTP. Each gets its own frontend kind or field; an
// SCTP port has no frontend at all until a backend can serve it. ipMode Proxy
// needs nothing: such an address never is a frontend.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Options are the choices a user makes for a dataplane.
type Options struct {
	// Node is the own node's name: an endpoint is local if it names it.
	Node        string
	Terminating Terminating
	// NoLocal is what external policy Local does when all endpoints are
	// elsewhere: Drop or Reject. Internal policy Local always drops (KEP-2086).
	NoLocal Action
	// ClusterCIDRs are the pod networks of the whole cluster. A packet to a
	// ClusterIP from elsewhere is masqueraded, so that its answer comes back
	// through this node. Without a CIDR of a family, none of that family is.
	ClusterCIDRs []netip.Prefix
}

// Terminating says what terminating endpoints are used for.
type Terminating string

const (
	// Fallback is KEP-1669 (Kubernetes 1.26 on): without a ready endpoint, the
	// serving and terminating ones take new connections, decided separately
	// for the endpoints of the cluster and for those of the node.
	Fallback Terminating = "fallback"
	// Ignore is the behaviour before it: only ready endpoints are ever used.
	Ignore Terminating = "ignore"
)

// Action is what happens to a new connection.
type Action string

// The actions. Drop and Reject are also the two values of Options.NoLocal:
// kube-proxy drops, Cilium refuses, and a client sees a very different failure.
const (
	Forward Action = "forward"
	Drop    Action = "drop"
	Reject  Action = "reject"
)

// Plan is the forwarding intent of one node, or of some of its Services: Diff
// of two partial plans is the difference for just these.
type Plan struct {
	Node     Node
	Services map[objects.Name]Service
}

// Node is what is the same for all Services.
type Node struct {
	Addrs        []netip.Addr   // where node ports are served, sorted
	PodCIDRs     []netip.Prefix // of pods on this node, sorted
	ClusterCIDRs []netip.Prefix // of all pods, sorted
}

// Equal tells whether two nodes are the same.
func (n Node) Equal(o Node) bool {
	return slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.PodCIDRs, o.PodCIDRs) &&
		slices.Equal(n.ClusterCIDRs, o.ClusterCIDRs)
}

// Service is what one Service asks of the node.
type Service struct {
	Frontends   []Frontend   // sorted by key
	HealthCheck *HealthCheck // nil unless it has a healthCheckNodePort
}

// Kind is the kind of address a frontend has.
type Kind uint8

// The kinds of frontends.
const (
	ClusterIP Kind = iota + 1
	NodePort       // every address in Node.Addrs of the key's family
)

// Key identifies a frontend: no two of a plan have the same.
type Key struct {
	Kind     Kind
	IPv6     bool
	Addr     netip.Addr // invalid for NodePort
	Protocol objects.Protocol
	Port     uint16
}

// String is the key as dumps show it.
func (k Key) String() string {
	if k.Kind == NodePort {
		family := "ip"
		if k.IPv6 {
			family = "ip6"
		}
		return fmt.Sprintf("nodeport %s %s %d", family, k.Protocol, k.Port)
	}
	return fmt.Sprintf("clusterip %s %s %d", k.Addr, k.Protocol, k.Port)
}

// Compare orders keys.
func (k Key) Compare(o Key) int {
	v6 := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(v6(k.IPv6), v6(o.IPv6)), k.Addr.Compare(o.Addr),
		cmp.Compare(k.Protocol, o.Protocol), cmp.Compare(k.Port, o.Port))
}

// Frontend is an address that clients connect to.
type Frontend struct {
	Key Key
	// Outside holds for every packet, unless Inside is set: then Inside holds
	// for packets from the node itself and from its own pods. That is the short
	// circuit of an external address under policy Local (semantics of
	// kube-proxy's external chain): a local client gets the Cluster endpoints.
	Outside Route
	Inside  *Route
}

// Route is where new connections go.
type Route struct {
	Action     Action
	Endpoints  []Endpoint // of Forward, not empty, sorted; none otherwise
	Masquerade Masquerade
}

// Endpoint is a place to forward to.
type Endpoint struct {
	Addr netip.Addr
	Port uint16
	// Local: on this node, so that it may be its own client (hairpin).
	Local bool
}

// Compare orders endpoints.
func (e Endpoint) Compare(o Endpoint) int {
	return cmp.Or(e.Addr.Compare(o.Addr), cmp.Compare(e.Port, o.Port))
}

// Masquerade says whose source address is replaced by the node's. A hairpin
// connection (an endpoint that reaches itself) always is.
type Masquerade uint8

// The masquerading rules.
const (
	KeepSource     Masquerade = iota
	MasqOffCluster            // sources outside Node.ClusterCIDRs
	MasqAlways
	MasqNode // the node's own connections
)

// HealthCheck is a healthCheckNodePort: the distinct addresses of local ready
// endpoints, per family. Terminating ones do not count, used or not: that is
// how the load balancer learns to go elsewhere (KEP-1669).
type HealthCheck struct {
	Port uint16
	IPv4 int
	IPv6 int
}
