package kit

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// written is a slice as a behaviour wrote it last.
type written struct {
	family    corev1.IPFamily
	endpoints []Endpoint
	ports     map[string]int32 // by name
}

func writtenAs(f corev1.IPFamily, ports []discoveryv1.EndpointPort, eps []Endpoint) *written {
	w := &written{family: f, endpoints: eps, ports: map[string]int32{}}
	for _, p := range ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if p.Port != nil {
			w.ports[name] = *p.Port
		}
	}
	return w
}

// wrote notes what a slice of the Service has from now on; nil: it is gone.
func (v *Service) wrote(name string, w *written) {
	if v.slices == nil {
		v.slices = map[string]*written{}
	}
	v.slices[name] = w
	if w == nil {
		delete(v.slices, name)
	}
	v.stands()
}

// asks notes in which cells an attempt is: it goes by a Service of the behaviour, as that is
// written at the moment. What goes to no address of one is in none.
func (s *Spec) asks(c Client, t Target) {
	s.lastCells = nil
	for _, v := range s.services {
		front, port, ok := v.front(t)
		if !ok || v.obj.Spec.Selector != nil { // what its endpoints are is the controllers' to say
			continue
		}
		if v.met == nil {
			v.met = map[Target]cell.Value{}
		}
		v.met[t] = front
		base := cell.Cell{
			cell.Protocol: cell.Value(strings.ToUpper(string(t.network))), cell.Frontend: front,
			cell.Policy: v.policy(front), cell.Family: cell.Value(s.Family), cell.Source: s.source(c),
		}
		s.lastCells = append(s.lastCells, v.cells(base, s.arrives(c, t, front), s.home(c), port)...)
	}
	for _, in := range s.lastCells {
		s.cells[in] = true
	}
}

// front is which of the Service's addresses a target is, and by which port.
func (v *Service) front(t Target) (front cell.Value, port corev1.ServicePort, ok bool) {
	addr, spec := t.to.Addr().Unmap(), v.obj.Spec
	if v.deleted || spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP == corev1.ClusterIPNone {
		return "", port, false
	}
	for _, p := range spec.Ports {
		if !strings.EqualFold(string(p.Protocol), string(t.network)) {
			continue
		}
		at := func(list []string) bool {
			return int32(t.to.Port()) == p.Port && slices.Contains(list, addr.String())
		}
		switch {
		case at(spec.ClusterIPs):
			return cell.ClusterIP, p, true
		case at(spec.ExternalIPs):
			return cell.ExternalIP, p, true
		case at(v.ingress()):
			return cell.LoadBalancer, p, true
		case p.NodePort != 0 && int32(t.to.Port()) == p.NodePort && v.spec.nodeAt(addr) != nil:
			return cell.NodePort, p, true
		}
	}
	return "", port, false
}

// ingress are its load balancers' addresses that the dataplane serves.
func (v *Service) ingress() (out []string) {
	for _, in := range v.obj.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			out = append(out, in.IP)
		}
	}
	return out
}

// policy is the one that is about a frontend.
func (v *Service) policy(front cell.Value) cell.Value {
	internal, external := v.obj.Spec.InternalTrafficPolicy, v.obj.Spec.ExternalTrafficPolicy
	local := external == corev1.ServiceExternalTrafficPolicyLocal
	if front == cell.ClusterIP {
		local = internal != nil && *internal == corev1.ServiceInternalTrafficPolicyLocal
	}
	if local {
		return cell.Local
	}
	return cell.Cluster
}

// cells are those of a base whose attempt a node handles (nil: any may) and whose client is
// at home on one (nil: on none): one for each kind of endpoint that may answer, or is to be
// shown not to.
func (v *Service) cells(base cell.Cell, arrives, home *Node, port corev1.ServicePort) (out []cell.Cell) {
	all := v.standing(port)
	here := on(arrives, all)
	if base[cell.Source] == cell.PodElsewhere && len(on(home, all)) > 0 {
		base[cell.Source] = cell.PodHere
	}
	counts, only := all, scoped(base)
	if only && len(here) > 0 {
		counts = here
	}
	base[cell.State] = stateOf(counts)
	if only && len(here) == 0 && len(all) > 0 {
		base[cell.State] = cell.NoneHere
	}
	if base[cell.Frontend] == cell.NodePort && len(here) == 0 {
		base[cell.Frontend] = cell.NodePortElsewhere
	}
	for kind := range kinds(counts) {
		base[cell.Kind] = kind
		out = append(out, base)
	}
	return out
}

// scoped tells whether an attempt is held to the endpoints of the node that handles it: what comes
// from inside to an external IP or a load balancer's address is not.
func scoped(in cell.Cell) bool {
	atNode := in[cell.Frontend] == cell.ClusterIP || in[cell.Frontend] == cell.NodePort
	return in[cell.Policy] == cell.Local && (atNode || in[cell.Source] == cell.Outside)
}

// standing is an endpoint of a Service port, and of which kind it is there.
type standing struct {
	Endpoint
	kind cell.Value
}

func (v *Service) standing(port corev1.ServicePort) (out []standing) {
	for _, w := range v.slices {
		number, has := w.ports[port.Name]
		if !has || w.family != v.spec.Family {
			continue
		}
		for _, e := range w.endpoints {
			out = append(out, standing{e, v.spec.kind(e, number)})
		}
	}
	return out
}

// on are those of a node; nil: of none.
func on(n *Node, all []standing) (out []standing) {
	for _, e := range all {
		if n != nil && e.node == n.Name {
			out = append(out, e)
		}
	}
	return out
}

func stateOf(all []standing) cell.Value {
	var n states
	for _, e := range all {
		n.add(e.Endpoint)
	}
	return n.value()
}

// kinds are those of the endpoints that a client may reach: the ready ones, or those that end and
// serve if none is ready; where there are none of these either, of all, which it may not.
func kinds(all []standing) map[cell.Value]bool {
	ready, draining, rest := map[cell.Value]bool{}, map[cell.Value]bool{}, map[cell.Value]bool{}
	for _, e := range all {
		var n states
		switch n.add(e.Endpoint); {
		case n.ready > 0:
			ready[e.kind] = true
		case n.draining > 0:
			draining[e.kind] = true
		default:
			rest[e.kind] = true
		}
	}
	for _, have := range []map[cell.Value]bool{ready, draining, rest} {
		if len(have) > 0 {
			return have
		}
	}
	return map[cell.Value]bool{cell.Pod: true}
}

// states counts endpoints.
type states struct{ ready, unready, draining, ended int }

func (n *states) add(e Endpoint) {
	is := func(b *bool, unset bool) bool { return b == nil && unset || b != nil && *b }
	switch ends := is(e.terminating, false); {
	case is(e.ready, true):
		n.ready++
	case ends && is(e.serving, true):
		n.draining++
	case ends:
		n.ended++
	default:
		n.unready++
	}
}

func (n states) value() cell.Value {
	switch {
	case n == states{}:
		return cell.None
	case n.ready > 0 && n.draining+n.ended > 0:
		return cell.SomeTerminating
	case n.ready > 0 && n.unready > 0:
		return cell.SomeNotReady
	case n.ready > 0:
		return cell.Ready
	case n.draining > 0:
		return cell.AllTerminating
	}
	return cell.NoneUsable
}

// source is where a client is, as far as it alone says.
func (s *Spec) source(c Client) cell.Value {
	switch {
	case c.Name == Outside:
		return cell.Outside
	case s.env.isNode(c):
		return cell.Node
	}
	return cell.PodElsewhere
}

// home is the node of a client that is on one.
func (s *Spec) home(c Client) *Node {
	for _, n := range s.Nodes {
		if c.Name == n.Name || c.Name == n.A.Name || c.Name == n.B.Name {
			return n
		}
	}
	return nil
}

// arrives is the node that handles an attempt: that of the node port, the one by which a host
// comes, or the client's own.
func (s *Spec) arrives(c Client, t Target, front cell.Value) *Node {
	switch {
	case front == cell.NodePort:
		return s.nodeAt(t.to.Addr().Unmap())
	case c.router != nil:
		return c.router
	}
	return s.home(c)
}

func (s *Spec) nodeAt(a netip.Addr) *Node {
	at := slices.IndexFunc(s.Nodes, func(n *Node) bool { return n.Addr(s.Family) == a })
	if at < 0 {
		return nil
	}
	return s.Nodes[at]
}

// kind is that of an endpoint, at its port.
func (s *Spec) kind(e Endpoint, port int32) cell.Value {
	switch {
	case s.nodeAt(e.at(s.Family)) != nil:
		return cell.HostNetwork
	case port != PodPort:
		return cell.OtherPort
	}
	return cell.Pod
}

// where is the cell of the last attempt, for the reason of a failure; empty: it was in none.
func (s *Spec) where() string {
	if len(s.lastCells) == 0 {
		return ""
	}
	words := make([]string, len(s.lastCells))
	for i, c := range s.lastCells {
		words[i] = c.String()
	}
	slices.Sort(words)
	return strings.Join(words, "; or ")
}
