package kit

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
)

// Way is a client, and what it dials.
type Way struct {
	From Client
	To   Target
}

// Both gives a Service a port for TCP (http) and one for UDP (dns): what Ways go to.
func Both(o *corev1.Service) {
	o.Spec.Ports = []corev1.ServicePort{Port("http", corev1.ProtocolTCP, 80), Port("dns", corev1.ProtocolUDP, 53)}
}

// at are the ways to an address by each of the Service's ports.
func (v *Service) at(c Client, a netip.Addr, number func(corev1.ServicePort) int32) (out []Way) {
	for _, p := range v.obj.Spec.Ports {
		to := map[corev1.Protocol]func(netip.AddrPort) Target{corev1.ProtocolTCP: TCP, corev1.ProtocolUDP: UDP, corev1.ProtocolSCTP: SCTP}[p.Protocol]
		out = append(out, Way{c, to(netip.AddrPortFrom(a, uint16(number(p))))})
	}
	return out
}

// WaysTo are those of clients to one of the Service's addresses, by each of its ports.
func (v *Service) WaysTo(a netip.Addr, clients ...Client) (out []Way) {
	for _, c := range clients {
		out = append(out, v.at(c, a, func(p corev1.ServicePort) int32 { return p.Port })...)
	}
	return out
}

// Ways are those of clients to its ClusterIP.
func (v *Service) Ways(clients ...Client) []Way {
	return v.WaysTo(netip.MustParseAddr(v.obj.Spec.ClusterIP), clients...)
}

// NodePortWays are those of clients to its node ports at a node.
func (v *Service) NodePortWays(n *Node, clients ...Client) (out []Way) {
	for _, c := range clients {
		out = append(out, v.at(c, n.Addr(v.spec.Family), func(p corev1.ServicePort) int32 { return p.NodePort })...)
	}
	return out
}

// FirstNodes are as many nodes as the suite needs, from the first on: what a promise says of any
// node is asked of these, however many there are.
func (s *Spec) FirstNodes() []*Node { return s.Nodes[:min(Enough, len(s.Nodes))] }

// PodClients is a pod of each of the first nodes: its second one.
func (s *Spec) PodClients() (out []Client) {
	for _, n := range s.FirstNodes() {
		out = append(out, n.B.Client)
	}
	return out
}

// NodeClients is each of the first nodes itself.
func (s *Spec) NodeClients() (out []Client) {
	for _, n := range s.FirstNodes() {
		out = append(out, n.Client)
	}
	return out
}

// Inside are the clients in the cluster: pods and nodes.
func (s *Spec) Inside() []Client { return append(s.PodClients(), s.NodeClients()...) }

// Everyone are those inside, and a host beyond each of the first nodes.
func (s *Spec) Everyone() []Client { return append(s.Inside(), s.HostsBeyond(s.FirstNodes()...)...) }

// SliceAt makes or replaces one of the Service's slices, with all its ports at one number of
// the endpoints.
func (v *Service) SliceAt(name string, number int32, eps ...Endpoint) {
	var ports []discoveryv1.EndpointPort
	for _, p := range v.obj.Spec.Ports {
		ports = append(ports, SlicePort(p.Name, p.Protocol, number))
	}
	v.Slice(name, ports, eps...)
}

// NodePortWaysOfAll are those to the ports of each of the first nodes: of the client outside, of the
// node itself, of a pod there, and of the next node and a pod on it.
func (v *Service) NodePortWaysOfAll() (out []Way) {
	s := v.spec
	nodes := s.FirstNodes()
	for i, n := range nodes {
		next := nodes[(i+1)%len(nodes)]
		out = append(out, v.NodePortWays(n, s.Outside(), n.Client, n.B.Client, next.B.Client, next.Client)...)
	}
	return out
}

// Kinds gives the Service a ready endpoint of every kind on three of the nodes: a pod on the
// first, one at a port of its own on the second, and the third node's own network; none on the
// fourth. Others are beside the first. It wants answers of those three.
func (v *Service) Kinds(beside ...Endpoint) Want {
	v.AllKinds(func(e Endpoint) Endpoint { return e }, beside...)
	return Only(v.spec.OfKinds()...).Times(3 * perWay)
}

// Ending is Kinds of endpoints that terminate and serve, so that none is ready but those beside.
func (v *Service) Ending(beside ...Endpoint) Want {
	v.AllKinds(Endpoint.Draining, beside...)
	return Only(v.spec.OfKinds()...).Times(3 * perWay)
}

// AllKinds are the endpoints of Kinds in another state.
func (v *Service) AllKinds(state func(Endpoint) Endpoint, beside ...Endpoint) {
	n := v.spec.Nodes
	v.SliceAt("a", PodPort, append([]Endpoint{state(n[0].A.Ready())}, beside...)...)
	v.SliceAt("port", OtherPort, state(n[1].A.Ready()))
	v.SliceAt("host", HostPort, state(n[2].Ready()))
}

// Beside is what may stand beside ready endpoints and is to get nothing: in turn nobody, and on
// each node that has one of OfKinds a pod that is not ready, and one that terminates and serves.
func (s *Spec) Beside() [][]Endpoint {
	out := make([][]Endpoint, 3)
	for _, n := range s.Nodes[:len(s.OfKinds())] {
		out[1], out[2] = append(out[1], n.B.NotReady()), append(out[2], n.B.Draining())
	}
	return out
}

// perWay makes chance spare one of three servers once in 10^7 ways: 3 * (2/3)^42. Where nothing
// has held yet they are asked again.
const perWay = 14

// OfKinds are the endpoints that Kinds makes, in the order of their nodes.
func (s *Spec) OfKinds() []Client {
	return []Client{s.Nodes[0].A.Client, s.Nodes[1].A.Client, s.Nodes[2].Client}
}

// HostsBeyond is a HostBeyond each.
func (s *Spec) HostsBeyond(nodes ...*Node) (out []Client) {
	for _, n := range nodes {
		out = append(out, s.HostBeyond(n))
	}
	return out
}

// evenTries are those of a way to three servers, which get 200 each with a standard deviation of
// sqrt(600*1/3*2/3) = 11.5 if chance decides: six of them are exceeded once in 10^8 for each server and way.
const (
	evenTries = 600
	evenLeast = 131
	evenMost  = 269
	// evenLost is how many datagrams of a way may meet silence: half a percent.
	evenLost = 3
)

// Even demands that the servers of OfKinds, who all are to answer, have even shares of the attempts by each way.
func (s *Spec) Even(ways []Way) {
	servers := s.OfKinds()
	s.Each(ways, Only(servers...).Times(3*perWay))
	for _, way := range ways {
		res := s.attemptsToSpread(way.From, way.To, evenTries)
		s.All(way.From, way.To, res, servers...)
		share := res.Summary().Server
		for _, server := range servers {
			if n := share[server.Name]; n < evenLeast || n > evenMost {
				s.Fail("%s to %s: of %d attempts %s got %d, want %d to %d (%v)", way.From.at(), way.To, evenTries, server.Name, n, evenLeast, evenMost, share)
			}
		}
	}
}

// attemptsToSpread are many attempts, without what is lost of datagrams anywhere.
func (s *Spec) attemptsToSpread(c Client, t Target, n int) *remote.Results {
	if t.network == remote.UDP {
		return withoutLost(s.Attempts(c, t, remote.Batch{Attempts: n, Concurrency: atOnceOfWay}))
	}
	return s.Attempts(c, t, remote.Batch{Attempts: n, Concurrency: 16})
}

// withoutLost leaves out what met silence of many datagrams, where that is little: one may be lost anywhere.
func withoutLost(res *remote.Results) *remote.Results {
	isLost := func(r remote.Result) bool { return r.Class == remote.Timeout }
	out := *res
	out.Attempts = slices.DeleteFunc(slices.Clone(res.Attempts), isLost)
	if len(res.Attempts)-len(out.Attempts) > evenLost {
		return res
	}
	return &out
}
