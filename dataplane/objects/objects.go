// Package objects holds what a Service dataplane needs of the Kubernetes API,
// in small structs of its own. k8s.io/api stops here: the plan and the backends
// see addresses as netip values, policies as named types and conditions as
// plain booleans.
//
// Main path: an informer's object -> FromService, FromEndpointSlice, FromNode
// -> Change -> Snapshot.Apply. Tests read the same objects from YAML (Decode).
package objects

import (
	"net/netip"
	"slices"
	"time"
)

// Name names a namespaced object.
type Name struct{ Namespace, Name string }

// String is the usual namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Compare orders names by namespace, then name.
func (n Name) Compare(o Name) int {
	if n.Namespace != o.Namespace {
		if n.Namespace < o.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case n.Name < o.Name:
		return -1
	case n.Name > o.Name:
		return 1
	}
	return 0
}

// Protocol is an IP protocol number; only those of Service ports occur.
type Protocol uint8

// The protocols of Service ports.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String is the protocol's name as nft and the API (in lower case) write it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return "unknown"
}

// Policy is an internal or external traffic policy.
type Policy string

// The traffic policies. An absent one is Cluster.
const (
	Cluster Policy = "Cluster"
	Local   Policy = "Local"
)

// Type is a Service's type.
type Type string

// The types of Services.
const (
	ClusterIP    Type = "ClusterIP"
	NodePort     Type = "NodePort"
	LoadBalancer Type = "LoadBalancer"
	ExternalName Type = "ExternalName"
)

// Service is the part of a Service that a dataplane acts on.
type Service struct {
	Name       Name
	Type       Type
	ClusterIPs []netip.Addr // one per family; empty for a headless Service
	Ports      []ServicePort
	Internal   Policy
	External   Policy
	// ExternalIPs are addresses that somebody else routes to the nodes.
	ExternalIPs []netip.Addr
	// LoadBalancerIPs are the ingress addresses of ipMode VIP (KEP-1860). Those
	// of ipMode Proxy are not a dataplane's business and not here.
	LoadBalancerIPs []netip.Addr
	// SourceRanges limit who may use LoadBalancerIPs, each family for itself:
	// without a range of a family, everybody may. BadRanges says that one could
	// not be read: then a family without ranges is closed, not open.
	SourceRanges []netip.Prefix
	BadRanges    bool
	// Affinity is the timeout of session affinity ClientIP, 0 for None.
	Affinity time.Duration
	// HealthCheckNodePort is set for type LoadBalancer with External Local.
	HealthCheckNodePort uint16
	// Created is the second of its creation, since 1970.
	Created int64
	// ProxyName is the label service.kubernetes.io/service-proxy-name: set, the
	// Service belongs to another proxy (KEP-2447).
	ProxyName string
}

// ServicePort is one port of a Service. Target ports are in the slices.
type ServicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
	NodePort uint16 // 0: none
}

// EndpointSlice is one slice of a Service's endpoints, of one address family.
type EndpointSlice struct {
	Name      Name
	Service   Name
	Headless  bool // label service.kubernetes.io/headless
	Ports     []SlicePort
	Endpoints []Endpoint
}

// SlicePort is a port of every endpoint in the slice.
type SlicePort struct {
	Name     string
	Protocol Protocol
	Port     uint16
}

// Endpoint is one backend. The API's absent conditions are resolved: ready and
// serving unless said otherwise, not terminating (discovery/v1
// EndpointConditions).
type Endpoint struct {
	Addr        netip.Addr
	Node        string
	Ready       bool
	Serving     bool
	Terminating bool
	Hints       *Hints // nil: none
}

// Hints say whose clients the control plane wants an endpoint to serve
// (KEP-2433 for zones, KEP-3015 for nodes).
type Hints struct{ Zones, Nodes []string }

// Node is the part of the own Node that a dataplane acts on.
type Node struct {
	Name        string
	InternalIPs []netip.Addr // in the API's order: the first of a family is primary
	PodCIDRs    []netip.Prefix
	Zone        string // label topology.kubernetes.io/zone
	// Leaving: being deleted, or tainted ToBeDeletedByClusterAutoscaler
	// (KEP-3836). It turns /healthz, and nothing else.
	Leaving bool
}

// Equal tells whether two nodes are the same to a dataplane.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Leaving == o.Leaving && n.Zone == o.Zone &&
		slices.Equal(n.InternalIPs, o.InternalIPs) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// Change is one object's new state, or its end. Exactly one of the pointers is
// set, except for an end, where Gone tells which object and the pointers are nil.
type Change struct {
	Service     *Service
	Slice       *EndpointSlice
	Node        *Node
	ServiceCIDR *ServiceCIDR
	Local       *LocalAddrs
	Gone        *Gone
	// Triggered is when that happened which the control plane wrote a slice anew for; zero: it
	// does not say.
	Triggered time.Time
}

// ServiceCIDR is an object that names the ranges ClusterIPs are allocated from
// (KEP-1880).
type ServiceCIDR struct {
	Name     string
	Prefixes []netip.Prefix
}

// LocalAddrs are the addresses of the node's interfaces, loopback and link-local
// ones left out. They come from the kernel, not from the API.
type LocalAddrs []netip.Addr

// Kind tells the kinds of objects apart in a Gone.
type Kind uint8

// The kinds of objects.
const (
	KindService Kind = iota + 1
	KindSlice
	KindNode
	KindServiceCIDR
)

// Gone names a deleted object. Service is set for a slice.
type Gone struct {
	Kind    Kind
	Name    Name
	Service Name
}
