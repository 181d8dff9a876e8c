package kit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline/plumbline/suites/conformance/cell"
)

// Ports of every probe pod and, on the nodes themselves, of every node's probe.
const (
	PodPort   = 8080  // TCP, UDP and SCTP
	OtherPort = 8081  // likewise
	HostPort  = 38081 // of the probe in a node's own network

	NobodysPort = 8082 // nobody listens there
)

// Endpoint is an entry of an EndpointSlice. What is nil is left out.
type Endpoint struct {
	at                          func(corev1.IPFamily) netip.Addr
	also                        []*Pod // whose addresses it has, too
	node                        string
	ready, serving, terminating *bool
	zones, nodes                []string // hints
}

func endpoint(at Client, node string, ready, serving, terminating bool) Endpoint {
	return Endpoint{at: at.Addr, node: node, ready: &ready, serving: &serving, terminating: &terminating}
}

// At is where a pod serves, past every Service.
func At(p *Pod, f corev1.IPFamily) netip.AddrPort { return netip.AddrPortFrom(p.Addr(f), PodPort) }

// At is where the node's own probe serves, past every Service.
func (n *Node) At(f corev1.IPFamily) netip.AddrPort { return netip.AddrPortFrom(n.Addr(f), HostPort) }

// Address is a ready endpoint that is no probe.
func Address(a netip.Addr) Endpoint {
	return Endpoint{at: func(corev1.IPFamily) netip.Addr { return a }}
}

// On is one whose slice says that it is on a node of that name.
func (e Endpoint) On(node string) Endpoint { e.node = node; return e }

// Also is one that has the address of a further pod, too: all are taken as one, and who sends to it may
// use but the first.
func (e Endpoint) Also(p *Pod) Endpoint {
	e.also = append(slices.Clone(e.also), p)
	return e
}

// addrs are all its addresses.
func (e Endpoint) addrs(f corev1.IPFamily) []netip.Addr {
	out := []netip.Addr{e.at(f)}
	for _, p := range e.also {
		out = append(out, p.Addr(f))
	}
	return out
}

// Bare leaves out all conditions: consumers must take it as ready.
func (e Endpoint) Bare() Endpoint {
	e.ready, e.serving, e.terminating = nil, nil, nil
	return e
}

// Unready is one that is not ready.
func (e Endpoint) Unready() Endpoint { return e.With(new(false), new(false), new(false)) }

// Draining is one that ends and still serves.
func (e Endpoint) Draining() Endpoint { return e.With(new(false), new(true), new(true)) }

// Ended is one that ends and does not serve.
func (e Endpoint) Ended() Endpoint { return e.With(new(false), new(false), new(true)) }

// ForZones adds hints of zones.
func (e Endpoint) ForZones(zones ...string) Endpoint { e.zones = zones; return e }

// ForNodes adds hints of nodes.
func (e Endpoint) ForNodes(nodes ...string) Endpoint { e.nodes = nodes; return e }

func (e Endpoint) object(f corev1.IPFamily) discoveryv1.Endpoint {
	out := discoveryv1.Endpoint{
		Conditions: discoveryv1.EndpointConditions{Ready: e.ready, Serving: e.serving, Terminating: e.terminating},
	}
	for _, a := range e.addrs(f) {
		out.Addresses = append(out.Addresses, a.String())
	}
	if e.node != "" {
		out.NodeName = &e.node
	}
	if len(e.zones)+len(e.nodes) > 0 {
		out.Hints = &discoveryv1.EndpointHints{}
		for _, z := range e.zones {
			out.Hints.ForZones = append(out.Hints.ForZones, discoveryv1.ForZone{Name: z})
		}
		for _, n := range e.nodes {
			out.Hints.ForNodes = append(out.Hints.ForNodes, discoveryv1.ForNode{Name: n})
		}
	}
	return out
}

// Service is a Service of one behaviour, with its slices.
type Service struct {
	spec    *Spec
	obj     *corev1.Service
	draft   *corev1.Service     // as it is to be made
	slices  map[string]*written // by name
	deleted bool
	met     map[Target]cell.Value // it was reached there, or was to be: at which kind of address
	stood   []stood               // its states so far
}

// Port is a port of a Service; the target is a number, in the slices.
func Port(name string, protocol corev1.Protocol, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: protocol, Port: port, TargetPort: intstr.FromInt32(PodPort)}
}

// Service makes a Service without selector, of the spec's family, with the port
// http (TCP 80); mutate may change it.
func (s *Spec) Service(mutate ...func(*corev1.Service)) *Service {
	v := s.Later(mutate...)
	v.Make()
	return v
}

// Later is a Service that is not made yet: its slices may be.
func (s *Spec) Later(mutate ...func(*corev1.Service)) *Service {
	s.serial++
	policy := corev1.IPFamilyPolicySingleStack
	obj := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.env.namespace, Name: s.name(fmt.Sprintf("s%d", s.serial))},
		Spec: corev1.ServiceSpec{
			IPFamilies: []corev1.IPFamily{s.Family}, IPFamilyPolicy: &policy,
			Ports: []corev1.ServicePort{Port("http", corev1.ProtocolTCP, 80)},
		},
	}
	for _, m := range mutate {
		m(obj)
	}
	v := &Service{spec: s, obj: obj, draft: obj.DeepCopy(), deleted: true}
	s.services = append(s.services, v)
	s.onEnd(func() error { return s.deleteService(obj.Name) })
	return v
}

// Make makes a Service that is not there, as it was first said to be.
func (v *Service) Make() {
	s := v.spec
	made, err := s.env.client.CoreV1().Services(s.env.namespace).Create(s.ctx, v.draft.DeepCopy(), metav1.CreateOptions{})
	s.must(err, "make Service %s", v.draft.Name)
	v.obj, v.deleted = made, false
	v.stands()
	s.did(handService(v.draft), "made Service %s: %s", v.draft.Name, serviceText(v.obj))
	s.changed()
}

// NodePorts makes it a Service of type NodePort.
func NodePorts(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeNodePort }

// LoadBalanced makes it a Service of type LoadBalancer of a class that nobody
// serves: its status is the behaviour's own to write.
func LoadBalanced(o *corev1.Service) {
	class := "plumbline.io/by-hand"
	o.Spec.Type, o.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
}

// ExternalLocal sets externalTrafficPolicy=Local.
func ExternalLocal(o *corev1.Service) {
	o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// ExternalCluster sets externalTrafficPolicy=Cluster.
func ExternalCluster(o *corev1.Service) {
	o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
}

// InternalLocal sets internalTrafficPolicy=Local.
func InternalLocal(o *corev1.Service) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	o.Spec.InternalTrafficPolicy = &local
}

// InternalCluster sets internalTrafficPolicy=Cluster.
func InternalCluster(o *corev1.Service) {
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	o.Spec.InternalTrafficPolicy = &cluster
}

// Ports replaces the ports.
func Ports(ports ...corev1.ServicePort) func(*corev1.Service) {
	return func(o *corev1.Service) { o.Spec.Ports = ports }
}

// Selects makes the pods of every node the Service's, by their labels, at a target port: so
// its slices are written by the controllers. The port called web is PodPort of each node's first
// pod and OtherPort of its second.
func Selects(target intstr.IntOrString) func(*corev1.Service) {
	return func(o *corev1.Service) {
		o.Spec.Selector = map[string]string{"plumbline.io/served": "pod"}
		o.Spec.Ports[0].TargetPort = target
	}
}

// Sticky sets sessionAffinity=ClientIP with a timeout in seconds.
func Sticky(seconds int32) func(*corev1.Service) {
	return func(o *corev1.Service) {
		o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		o.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

// NotSticky takes that back.
func NotSticky(o *corev1.Service) {
	o.Spec.SessionAffinity, o.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
}

// ExternalIPs sets externalIPs.
func ExternalIPs(addrs ...netip.Addr) func(*corev1.Service) {
	return func(o *corev1.Service) {
		for _, a := range addrs {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, a.String())
		}
	}
}

// Update changes the Service.
func (v *Service) Update(mutate func(*corev1.Service)) {
	v.spec.must(v.update(mutate), "change Service %s", v.obj.Name)
}

// UpdateIfValid changes the Service unless the API finds a field of it invalid, as later ones do of what earlier ones
// took: why is what it says then.
func (v *Service) UpdateIfValid(field string, mutate func(*corev1.Service)) (why string) {
	err := v.update(mutate)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Reason == metav1.StatusReasonInvalid && status.ErrStatus.Details != nil {
		of := func(c metav1.StatusCause) bool {
			return strings.HasPrefix(strings.ToLower(c.Field), strings.ToLower(field))
		}
		if slices.ContainsFunc(status.ErrStatus.Details.Causes, of) {
			return err.Error()
		}
	}
	v.spec.must(err, "change Service %s", v.obj.Name)
	return ""
}

func (v *Service) update(mutate func(*corev1.Service)) error {
	err := v.retry(func(o *corev1.Service) error {
		mutate(o)
		made, err := v.spec.env.client.CoreV1().Services(v.spec.env.namespace).Update(v.spec.ctx, o, metav1.UpdateOptions{})
		if err == nil {
			v.obj = made
		}
		return err
	})
	if err != nil {
		return err
	}
	v.stands()
	v.spec.did(handService(v.obj), "changed Service %s, now: %s", v.obj.Name, serviceText(v.obj))
	v.spec.changed()
	return nil
}

// Ingress writes status.loadBalancer: addresses with an ipMode (empty: none given).
func (v *Service) Ingress(mode corev1.LoadBalancerIPMode, addrs ...netip.Addr) {
	v.spec.must(v.retry(func(o *corev1.Service) error {
		o.Status.LoadBalancer.Ingress = nil
		for _, a := range addrs {
			in := corev1.LoadBalancerIngress{IP: a.String()}
			if mode != "" {
				in.IPMode = &mode
			}
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, in)
		}
		made, err := v.spec.env.client.CoreV1().Services(v.spec.env.namespace).UpdateStatus(v.spec.ctx, o, metav1.UpdateOptions{})
		if err == nil {
			v.obj = made
		}
		return err
	}), "write the status of Service %s", v.obj.Name)
	v.spec.did(handStatus(v.obj), "wrote the status of Service %s: %s", v.obj.Name, ingressText(v.obj))
	v.spec.changed()
}

// Endpoints says which endpoints the Service has, in one slice, at the ports'
// target numbers.
func (v *Service) Endpoints(eps ...Endpoint) { v.Slice("a", nil, eps...) }

// Slice makes or replaces one of the Service's slices. Without ports it has those
// of the Service, at their target numbers.
func (v *Service) Slice(name string, ports []discoveryv1.EndpointPort, eps ...Endpoint) {
	s := v.spec
	slice := s.slice(v.obj, name, ports, eps)
	s.must(s.putSlice(slice), "write EndpointSlice %s", slice.Name)
	v.wrote(name, writtenAs(s.Family, slice.Ports, eps))
	s.did(handSlice(slice), "wrote EndpointSlice %s: %s", slice.Name, sliceText(slice))
	s.changed()
}

// SlicePort is a port of a slice.
func SlicePort(name string, protocol corev1.Protocol, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number}
}

// ClusterIP is where the Service is reached inside, at the port of a name (http
// if none is given).
func (v *Service) ClusterIP(port ...string) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(v.obj.Spec.ClusterIP), uint16(v.port(port).Port))
}

// At is another of its addresses (an external or load balancer's one).
func (v *Service) At(addr netip.Addr, port ...string) netip.AddrPort {
	return netip.AddrPortFrom(addr, uint16(v.port(port).Port))
}

// NodePort is where the Service is reached at a node.
func (v *Service) NodePort(n *Node, port ...string) netip.AddrPort {
	return netip.AddrPortFrom(n.Addr(v.spec.Family), uint16(v.port(port).NodePort))
}

// HealthPort is its healthCheckNodePort at a node.
func (v *Service) HealthPort(n *Node) netip.AddrPort {
	return netip.AddrPortFrom(n.Addr(v.spec.Family), uint16(v.obj.Spec.HealthCheckNodePort))
}

// Object is the Service as the API has it.
func (v *Service) Object() *corev1.Service { return v.obj.DeepCopy() }

func (v *Service) port(name []string) corev1.ServicePort {
	want := "http"
	if len(name) > 0 {
		want = name[0]
	}
	i := slices.IndexFunc(v.obj.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == want })
	if i < 0 {
		panic(fmt.Errorf("Service %s has no port %q", v.obj.Name, want))
	}
	return v.obj.Spec.Ports[i]
}
