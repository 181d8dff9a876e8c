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
// KEP-3866 (node port addresses, reject and drop of ClusterIPs), KEP-1860
// (ipMode), KEP-1880 (ServiceCIDRs), KEP-2433, KEP-3015 and KEP-4444 (hints),
// the "Virtual IPs and Service Proxies" reference, and pkg/proxy of Kubernetes
// v1.36.3.
package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

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
	// ClusterCIDRs are the pod networks of the whole cluster.
	ClusterCIDRs []netip.Prefix
	// Local says which pods count as the node's own. A packet to a ClusterIP from elsewhere
	// is masqueraded, so that its answer comes back through this node; without a network
	// of a family, none of that family is.
	Local DetectLocal
	// LocalLink, for the two that tell by links: which.
	LocalLink Link
	// MasqueradeAll: a connection to a ClusterIP has the node's address for its source, from
	// wherever it comes.
	MasqueradeAll bool
	NodePorts     NodePortAddresses
	// SCTP says that the backend on this kernel can serve SCTP ports. Without,
	// they have no frontends.
	SCTP bool
	// Sockets says that the backend translates what begins on this node when its socket connects
	// or sends: of the node's own programs and of the pods on it, by TCP and UDP. Then no packet
	// carries the Service's address, and there is none to masquerade: the source is kept, by every
	// kind of address, and also by an endpoint that reaches itself ("Kubernetes Without kube-proxy"
	// of Cilium's documentation, on its socket-level load balancer: the kernel's socket is connected
	// to the backend, no lower layer NAT is required). All of them count as inside of external
	// policy Local, whatever their address or link, for a socket has neither yet (the same page
	// takes the namespace's cookie for affinity for that reason; Cilium's scope internal). A
	// frontend that is restricted is left to what sees packets, and is as without this.
	Sockets bool
}

// NodePortAddresses says at which addresses node ports are served. The zero
// value is "primary": the Node's first address of each family, the default of
// kube-proxy's nftables mode (KEP-3866).
type NodePortAddresses struct {
	// Within: the node's addresses inside these networks instead; 0.0.0.0/0
	// and ::/0 are all of them.
	Within []netip.Prefix
}

// DetectLocal is how the node's own pods are told from others: the values are those of
// kube-proxy's detectLocalMode.
type DetectLocal string

const (
	// ByClusterCIDR, also the zero value: those of the whole cluster. A pod of another node
	// comes to this one's Services by its own node only, if that has them.
	ByClusterCIDR DetectLocal = "ClusterCIDR"
	// ByNodeCIDR: those of the Node's podCIDRs, which not every CNI plugin takes addresses
	// from.
	ByNodeCIDR DetectLocal = "NodeCIDR"
	// ByBridge: those whose packets come in by one link of the node.
	ByBridge DetectLocal = "BridgeInterface"
	// ByLinkPrefix: by links whose names begin alike, such as those of pods' veth pairs.
	ByLinkPrefix DetectLocal = "InterfaceNamePrefix"
)

// Link is a link of the node's, or with an asterisk at the end all whose names begin so;
// empty: none.
type Link string

// Begins is what its name is, or begins with.
func (l Link) Begins() (name string, prefix bool) { return strings.CutSuffix(string(l), "*") }

// Is tells whether a link of a name is the one, or one of them.
func (l Link) Is(name string) bool {
	begins, prefix := l.Begins()
	return begins != "" && (name == begins || prefix && strings.HasPrefix(name, begins))
}

// Pattern is the name as nf_tables compares it: filled up to the kernel's 16 bytes (IFNAMSIZ), or
// as long as what names begin with.
func (l Link) Pattern() []byte {
	name, prefix := l.Begins()
	if prefix {
		return []byte(name)
	}
	return append([]byte(name), make([]byte, max(0, 16-len(name)))...)
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
	LocalPods    []netip.Prefix // of pods that count as this node's own, sorted
	LocalLink    Link           // by which their packets come, where that tells
	ServiceCIDRs []netip.Prefix // ClusterIPs are allocated from these, sorted; an address no Service has is silent
	Sockets      bool           // as in Options: what begins here is translated at its socket
}

// Equal tells whether two nodes are the same.
func (n Node) Equal(o Node) bool {
	return slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.LocalPods, o.LocalPods) && n.LocalLink == o.LocalLink && slices.Equal(n.ServiceCIDRs, o.ServiceCIDRs) && n.Sockets == o.Sockets
}

// Service is what one Service asks of the node.
type Service struct {
	Frontends   []Frontend   // sorted by key
	HealthCheck *HealthCheck // nil unless it has a healthCheckNodePort
	Created     int64        // as of the object
	// Warnings name endpoints that are addresses of Services, a line each.
	Warnings []string
}

// Kind is the kind of address a frontend has.
type Kind uint8

// The kinds of frontends. Where two claim one key, the first in this order has
// it: nobody takes a ClusterIP away by an external IP (CVE-2020-8554).
const (
	ClusterIP    Kind = iota + 1
	LoadBalancer      // an ingress address of ipMode VIP
	ExternalIP
	NodePort // every address in Node.Addrs of the key's family
)

// String is the kind in lower case, as dumps show it.
func (k Kind) String() string {
	return [...]string{"none", "clusterip", "loadbalancer", "externalip", "nodeport"}[k]
}

// Key identifies a frontend by what a packet shows of it: no two of a plan have
// the same. Without protocol and port it is a wildcard: everything to that
// address which no other frontend claims. Every ClusterIP has one, and it
// refuses (KEP-3866).
type Key struct {
	IPv6     bool
	Addr     netip.Addr // invalid for a node port: all of Node.Addrs
	Protocol objects.Protocol
	Port     uint16
}

// IsNodePort tells whether the key stands for all the node's addresses.
func (k Key) IsNodePort() bool { return !k.Addr.IsValid() }

// IsWildcard tells whether the key stands for the rest of an address.
func (k Key) IsWildcard() bool { return k.Protocol == 0 }

// String is the key as dumps show it, such as tcp 10.96.0.1:443, any 10.96.0.1
// or tcp node:30080 (ip6).
func (k Key) String() string {
	if k.IsWildcard() {
		return fmt.Sprintf("any %s", k.Addr)
	}
	if !k.IsNodePort() {
		return fmt.Sprintf("%s %s", k.Protocol, netip.AddrPortFrom(k.Addr, k.Port))
	}
	if k.IPv6 {
		return fmt.Sprintf("%s node:%d (ip6)", k.Protocol, k.Port)
	}
	return fmt.Sprintf("%s node:%d", k.Protocol, k.Port)
}

// Compare orders keys: node ports last.
func (k Key) Compare(o Key) int {
	num := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(num(k.IsNodePort()), num(o.IsNodePort())), cmp.Compare(num(k.IPv6), num(o.IPv6)),
		k.Addr.Compare(o.Addr), cmp.Compare(k.Protocol, o.Protocol), cmp.Compare(k.Port, o.Port))
}

// Frontend is an address that clients connect to.
type Frontend struct {
	Key  Key
	Kind Kind
	// Restricted: only sources in Sources may use it, packets of others are
	// dropped (loadBalancerSourceRanges). Never set but for LoadBalancer.
	Restricted bool
	Sources    []netip.Prefix // sorted, of the key's family
	// Outside holds for every packet, unless Inside is set: then Inside holds
	// for packets from the node itself and from its own pods. That is the short
	// circuit of an external address under policy Local (semantics of
	// kube-proxy's external chain): a local client gets the Cluster endpoints.
	Outside Route
	Inside  *Route
	// Affinity, if not zero, keeps a client address at the endpoint it had last,
	// while that is among the route's endpoints and was used within this time.
	// The memory is one for all frontends with the same Group.
	Affinity time.Duration
	// Group is the key of the ClusterIP frontend of the same Service port: what
	// all frontends of that port and family have in common.
	Group Key
	// Draining are endpoints that still serve but get no new connections from
	// any route: what conntrack remembers of them stays valid. Sorted.
	Draining []Endpoint
	// Unready are endpoints in a slice that do not serve at present: no packet is sent
	// to them, but a connection that they have is nobody else's to end. They make no
	// difference to a packet, so none to Diff. Sorted.
	Unready []Endpoint
}

// Route is where new connections go.
type Route struct {
	Action     Action
	Endpoints  []Endpoint // of Forward, not empty; none otherwise. Sorted by Build, in slots by Step
	Masquerade Masquerade
	// Terminating: all Endpoints are, there is no ready one. It makes no difference
	// to a packet, so none to Diff.
	Terminating bool
}

// Endpoint is a place to forward to.
type Endpoint struct {
	Addr  netip.Addr
	Port  uint16
	Local bool // on this node
	// Unplaced: its slice names no node. It counts as one of another node, and may be here; one that is here while its
	// slice names another node is taken at its word.
	Unplaced bool
	// Host: the node itself (a host-network pod of it). What is forwarded there
	// is delivered and not sent on, so it keeps its source whatever the route
	// says (kube-proxy's nftables README: no masquerading to a host network IP).
	Host bool
}

// MayBeClient tells whether an endpoint of a route may be its own client (hairpin): one that is here or may be, and by
// the inside any, since a pod of another node may count as one of this node's (Node.LocalPods) and keeps its
// source there. At a ClusterIP a pod of another node is translated by that node.
func (e Endpoint) MayBeClient(inside bool) bool { return e.Local || e.Unplaced || inside }

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
