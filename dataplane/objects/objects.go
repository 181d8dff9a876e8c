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

// The protocols of Service ports. SCTP is known so that it can be told apart,
// but no backend serves it yet.
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
	// HealthCheckNodePort is set for type LoadBalancer with External Local.
	HealthCheckNodePort uint16
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
	ProxyName string
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
}

// Node is the part of the own Node that a dataplane acts on.
type Node struct {
	Name        string
	InternalIPs []netip.Addr
	PodCIDRs    []netip.Prefix
	// Leaving: being deleted, or tainted ToBeDeletedByClusterAutoscaler
	// (KEP-3836). It turns /healthz, and nothing else.
	Leaving bool
}

// Equal tells whether two nodes are the same to a dataplane.
func (n Node) Equal(o Node) bool {
	return n.Name == o.Name && n.Leaving == o.Leaving &&
		slices.Equal(n.InternalIPs, o.InternalIPs) && slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// Change is one object's new state, or its end. Exactly one of the pointers is
// set, except for an end, where Gone tells which object and the pointers are nil.
type Change struct {
	Service *Service
	Slice   *EndpointSlice
	Node    *Node
	Gone    *Gone
}

// Kind tells the kinds of objects apart in a Gone.
type Kind uint8

// The kinds of objects.
const (
	KindService Kind = iota + 1
	KindSlice
	KindNode
)

// Gone names a deleted object. Service is set for a slice.
type Gone struct {
	Kind    Kind
	Name    Name
	Service Name
}

// Snapshot is the last known state of every object. The zero value is empty
// and ready to use. It is not safe for concurrent use.
type Snapshot struct {
	Node     *Node // nil while unknown
	Services map[Name]Service
	Slices   map[Name]map[Name]EndpointSlice // by Service, then by slice
}

// Apply takes a change in and names the Services whose forwarding it may alter;
// node is true when the own Node changed. A slice that moves to another Service
// is a Gone for the old place followed by the slice itself.
func (s *Snapshot) Apply(c Change) (touched []Name, node bool) {
	switch {
	case c.Service != nil:
		if s.Services == nil {
			s.Services = map[Name]Service{}
		}
		s.Services[c.Service.Name] = *c.Service
		return []Name{c.Service.Name}, false
	case c.Slice != nil:
		return s.setSlice(*c.Slice), false
	case c.Node != nil:
		s.Node = c.Node
		return nil, true
	case c.Gone != nil:
		return s.gone(*c.Gone)
	}
	return nil, false
}

func (s *Snapshot) setSlice(sl EndpointSlice) []Name {
	if s.Slices == nil {
		s.Slices = map[Name]map[Name]EndpointSlice{}
	}
	if s.Slices[sl.Service] == nil {
		s.Slices[sl.Service] = map[Name]EndpointSlice{}
	}
	s.Slices[sl.Service][sl.Name] = sl
	return []Name{sl.Service}
}

func (s *Snapshot) removeSlice(svc, name Name) {
	delete(s.Slices[svc], name)
	if len(s.Slices[svc]) == 0 {
		delete(s.Slices, svc)
	}
}

func (s *Snapshot) gone(g Gone) (touched []Name, node bool) {
	switch g.Kind {
	case KindService:
		delete(s.Services, g.Name)
		return []Name{g.Name}, false
	case KindSlice:
		s.removeSlice(g.Service, g.Name)
		return []Name{g.Service}, false
	case KindNode:
		if s.Node != nil {
			n := *s.Node
			n.Leaving = true // its addresses stay valid until this process ends
			s.Node = &n
		}
		return nil, true
	}
	return nil, false
}
