package objects

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// ToBeDeletedTaint is put on a node by the cluster autoscaler before it removes
// the machine (KEP-3836).
const ToBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"

// LabelProxyName and LabelHeadless keep an object away from the default proxy
// (KEP-2447 and corev1.IsHeadlessService).
const (
	LabelProxyName = "service.kubernetes.io/service-proxy-name"
	LabelHeadless  = corev1.IsHeadlessService
)

// FromService converts a Service. What cannot be used (a bad address, a port
// out of range) is left out and named in the error; the rest is still valid.
func FromService(s *corev1.Service) (Service, error) {
	out := Service{
		Name:      Name{s.Namespace, s.Name},
		Type:      Type(s.Spec.Type),
		Internal:  Cluster,
		External:  Cluster,
		ProxyName: s.Labels[LabelProxyName],
	}
	if !s.CreationTimestamp.IsZero() {
		out.Created = s.CreationTimestamp.Unix()
	}
	if out.Type == "" {
		out.Type = ClusterIP
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		out.Internal = Local
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		out.External = Local
	}
	c := &complaints{}
	out.ClusterIPs = c.addrs("cluster IP", clusterIPs(s))
	out.ExternalIPs = c.ofFamilies("external IP", out.ClusterIPs, c.addrs("external IP", s.Spec.ExternalIPs))
	// Of other families too: a load balancer may translate, and its address then is
	// none of a dataplane's business.
	out.LoadBalancerIPs = c.addrs("load balancer ingress", ingressIPs(s))
	out.SourceRanges = c.prefixes("load balancer source range", s.Spec.LoadBalancerSourceRanges)
	out.BadRanges = len(out.SourceRanges) < len(s.Spec.LoadBalancerSourceRanges)
	out.Affinity = affinity(s)
	out.Ports = make([]ServicePort, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		port, err := fromServicePort(p)
		if c.note("", err) {
			out.Ports = append(out.Ports, port)
		}
	}
	if hc := s.Spec.HealthCheckNodePort; hc > 0 && hc <= 65535 {
		out.HealthCheckNodePort = uint16(hc)
	}
	return out, c.of("service", out.Name.String())
}

// affinity is the timeout of ClientIP affinity; an absent one is three hours
// (v1.DefaultClientIPServiceAffinitySeconds).
func affinity(s *corev1.Service) time.Duration {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := int64(corev1.DefaultClientIPServiceAffinitySeconds)
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = int64(*c.ClientIP.TimeoutSeconds)
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

// ingressIPs are the load balancer's addresses that a dataplane answers for.
func ingressIPs(s *corev1.Service) []string {
	var out []string
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP) {
			out = append(out, in.IP)
		}
	}
	return out
}

// clusterIPs are the virtual addresses, none for headless or ExternalName.
func clusterIPs(s *corev1.Service) []string {
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	if len(s.Spec.ClusterIPs) > 0 {
		if s.Spec.ClusterIPs[0] == corev1.ClusterIPNone {
			return nil
		}
		return s.Spec.ClusterIPs
	}
	if s.Spec.ClusterIP == "" {
		return nil
	}
	return []string{s.Spec.ClusterIP}
}

func fromServicePort(p corev1.ServicePort) (ServicePort, error) {
	proto, err := fromProtocol(p.Protocol)
	if err != nil {
		return ServicePort{}, fmt.Errorf("port %q: %w", p.Name, err)
	}
	if p.Port < 1 || p.Port > 65535 || p.NodePort < 0 || p.NodePort > 65535 {
		return ServicePort{}, fmt.Errorf("port %q: number %d or node port %d out of range", p.Name, p.Port, p.NodePort)
	}
	return ServicePort{Name: p.Name, Protocol: proto, Port: uint16(p.Port), NodePort: uint16(p.NodePort)}, nil
}

func fromProtocol(p corev1.Protocol) (Protocol, error) {
	switch p {
	case corev1.ProtocolTCP, "":
		return TCP, nil
	case corev1.ProtocolUDP:
		return UDP, nil
	case corev1.ProtocolSCTP:
		return SCTP, nil
	}
	return 0, fmt.Errorf("unknown protocol %q", p)
}

// FromEndpointSlice converts a slice; ok is false for one that belongs to no
// Service or holds host names.
func FromEndpointSlice(s *discoveryv1.EndpointSlice) (out EndpointSlice, ok bool, err error) {
	svc := s.Labels[discoveryv1.LabelServiceName]
	if svc == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return EndpointSlice{}, false, nil
	}
	_, headless := s.Labels[LabelHeadless]
	out = EndpointSlice{
		Name:     Name{s.Namespace, s.Name},
		Service:  Name{s.Namespace, svc},
		Headless: headless,
	}
	c := &complaints{}
	out.Ports = make([]SlicePort, 0, len(s.Ports))
	for _, p := range s.Ports {
		if p.Port == nil {
			continue // "not restricted": legal, and nothing a proxy could forward to
		}
		if port, err := fromSlicePort(p); c.note("", err) {
			out.Ports = append(out.Ports, port)
		}
	}
	out.Endpoints = make([]Endpoint, 0, len(s.Endpoints))
	for _, e := range s.Endpoints {
		if ep, err := fromEndpoint(e, s.AddressType); c.note("", err) {
			out.Endpoints = append(out.Endpoints, ep)
		}
	}
	return out, true, c.of("endpoint slice", out.Name.String())
}

// Triggered is what Change.Triggered is for a slice.
func Triggered(s *discoveryv1.EndpointSlice) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime]) // zero with an error
	return t
}

// fromSlicePort needs a port with a number.
func fromSlicePort(p discoveryv1.EndpointPort) (SlicePort, error) {
	var out SlicePort
	if p.Name != nil {
		out.Name = *p.Name
	}
	proto := corev1.ProtocolTCP
	if p.Protocol != nil {
		proto = *p.Protocol
	}
	var err error
	if out.Protocol, err = fromProtocol(proto); err != nil {
		return SlicePort{}, fmt.Errorf("port %q: %w", out.Name, err)
	}
	if *p.Port < 1 || *p.Port > 65535 {
		return SlicePort{}, fmt.Errorf("port %q: number %d out of range", out.Name, *p.Port)
	}
	out.Port = uint16(*p.Port)
	return out, nil
}

// fromEndpoint uses the first address only: the API says the others are for
// consumers that know what to do with them, and the control plane writes one.
func fromEndpoint(e discoveryv1.Endpoint, family discoveryv1.AddressType) (Endpoint, error) {
	if len(e.Addresses) == 0 {
		return Endpoint{}, errors.New("endpoint without address")
	}
	addr, err := parseUnicast(e.Addresses[0])
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint: %w", err)
	}
	if addr.Is4() != (family == discoveryv1.AddressTypeIPv4) {
		return Endpoint{}, fmt.Errorf("endpoint %s is not of the slice's family %s", addr, family)
	}
	out := Endpoint{Addr: addr, Ready: isTrue(e.Conditions.Ready, true)}
	out.Serving = isTrue(e.Conditions.Serving, true)
	out.Terminating = isTrue(e.Conditions.Terminating, false)
	if e.NodeName != nil {
		out.Node = unique.Make(*e.NodeName).Value() // few names, in many endpoints
	}
	out.Hints = hints(e.Hints)
	return out, nil
}

func hints(h *discoveryv1.EndpointHints) *Hints {
	if h == nil || len(h.ForZones)+len(h.ForNodes) == 0 {
		return nil
	}
	out := &Hints{}
	for _, z := range h.ForZones {
		out.Zones = append(out.Zones, z.Name)
	}
	for _, n := range h.ForNodes {
		out.Nodes = append(out.Nodes, n.Name)
	}
	return out
}

func isTrue(p *bool, absent bool) bool {
	if p == nil {
		return absent
	}
	return *p
}

// FromNode converts a Node. Its ExternalIPs stand in for InternalIPs in a family
// that has none of the latter, as kube-proxy takes them (GetNodeHostIPs).
func FromNode(n *corev1.Node) (Node, error) {
	out := Node{Name: n.Name, Leaving: n.DeletionTimestamp != nil, Zone: n.Labels[corev1.LabelTopologyZone]}
	c := &complaints{}
	internal := c.addrs("internal IP", nodeAddrs(n, corev1.NodeInternalIP))
	out.InternalIPs = internal
	for _, a := range c.addrs("external IP", nodeAddrs(n, corev1.NodeExternalIP)) {
		if !slices.ContainsFunc(internal, func(i netip.Addr) bool { return i.Is6() == a.Is6() }) {
			out.InternalIPs = append(out.InternalIPs, a)
		}
	}
	cidrs := n.Spec.PodCIDRs
	if len(cidrs) == 0 && n.Spec.PodCIDR != "" {
		cidrs = []string{n.Spec.PodCIDR}
	}
	out.PodCIDRs = c.prefixes("pod CIDR", cidrs)
	for _, t := range n.Spec.Taints {
		if t.Key == ToBeDeletedTaint {
			out.Leaving = true
		}
	}
	return out, c.of("node", n.Name)
}

func nodeAddrs(n *corev1.Node, kind corev1.NodeAddressType) []string {
	var out []string
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			out = append(out, a.Address)
		}
	}
	return out
}

// FromServiceCIDR converts a ServiceCIDR.
func FromServiceCIDR(s *networkingv1.ServiceCIDR) (ServiceCIDR, error) {
	c := &complaints{}
	return ServiceCIDR{Name: s.Name, Prefixes: c.prefixes("CIDR", s.Spec.CIDRs)}, c.of("service CIDR", s.Name)
}

// complaints gathers what cannot be used of an object.
type complaints struct{ errs []error }

// note keeps an error and tells whether there was none.
func (c *complaints) note(what string, err error) bool {
	if err != nil && what != "" {
		err = fmt.Errorf("%s: %w", what, err)
	}
	if err != nil {
		c.errs = append(c.errs, err)
	}
	return err == nil
}

func (c *complaints) addrs(what string, texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if a, err := parseUnicast(text); c.note(what, err) {
			out = append(out, a)
		}
	}
	return out
}

// ofFamilies leaves out addresses of a family that the Service's ClusterIPs have
// none of: its endpoints are of others. A Service without ClusterIPs is not served at all.
func (c *complaints) ofFamilies(what string, vips, in []netip.Addr) []netip.Addr {
	if len(vips) == 0 {
		return in
	}
	return slices.DeleteFunc(in, func(a netip.Addr) bool {
		if slices.ContainsFunc(vips, func(v netip.Addr) bool { return v.Is6() == a.Is6() }) {
			return false
		}
		c.note(what, fmt.Errorf("address %s is of a family that the Service has no cluster IP of", a))
		return true
	})
}

// prefixes reads networks; the API lets source ranges have spaces around them.
func (c *complaints) prefixes(what string, texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err == nil && p.Addr().Is4In6() {
			err = fmt.Errorf("network %s is IPv4 written as IPv6", p)
		}
		if c.note(what, err) {
			out = append(out, p.Masked())
		}
	}
	return out
}

// of is the error of all complaints about one object, nil without any.
func (c *complaints) of(kind, name string) error {
	if len(c.errs) == 0 {
		return nil
	}
	var texts []string
	for _, err := range c.errs[:min(len(c.errs), mostNamed)] {
		texts = append(texts, err.Error())
	}
	if rest := len(c.errs) - len(texts); rest > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", rest))
	}
	return &Unusable{fmt.Sprintf("%s %s: %s", kind, name, strings.Join(texts, "; "))}
}

// mostNamed is how many complaints an error names; an Event is one line.
const mostNamed = 5

// Unusable is the error of a conversion that left something out; the rest of
// the object is valid.
type Unusable struct{ text string }

func (u *Unusable) Error() string { return u.text }

// parseUnicast reads an address that packets of others can be sent to.
func parseUnicast(text string) (netip.Addr, error) {
	a, err := parseAddr(text)
	if err == nil && (a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})) {
		err = fmt.Errorf("address %s cannot be forwarded to or from", a)
	}
	return a, err
}

// parseAddr refuses zones and unwraps IPv4-mapped IPv6, which would otherwise
// be a second name for the same address.
func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, err
	}
	if a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("address %q has a zone", text)
	}
	return a.Unmap(), nil
}
