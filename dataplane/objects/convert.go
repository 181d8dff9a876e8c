package objects

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	if out.Type == "" {
		out.Type = ClusterIP
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		out.Internal = Local
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		out.External = Local
	}
	var errs []error
	for _, text := range clusterIPs(s) {
		addr, err := parseAddr(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("cluster IP: %w", err))
			continue
		}
		out.ClusterIPs = append(out.ClusterIPs, addr)
	}
	for _, p := range s.Spec.Ports {
		port, err := fromServicePort(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Ports = append(out.Ports, port)
	}
	if hc := s.Spec.HealthCheckNodePort; hc > 0 && hc <= 65535 {
		out.HealthCheckNodePort = uint16(hc)
	}
	if len(errs) > 0 {
		return out, fmt.Errorf("service %s: %w", out.Name, errors.Join(errs...))
	}
	return out, nil
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
		Name:      Name{s.Namespace, s.Name},
		Service:   Name{s.Namespace, svc},
		Headless:  headless,
		ProxyName: s.Labels[LabelProxyName],
	}
	var errs []error
	for _, p := range s.Ports {
		if p.Port == nil {
			continue // "not restricted": legal, and nothing a proxy could forward to
		}
		port, err := fromSlicePort(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Ports = append(out.Ports, port)
	}
	for _, e := range s.Endpoints {
		ep, err := fromEndpoint(e, s.AddressType)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out.Endpoints = append(out.Endpoints, ep)
	}
	if len(errs) > 0 {
		err = fmt.Errorf("endpoint slice %s: %w", out.Name, errors.Join(errs...))
	}
	return out, true, err
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
	addr, err := parseAddr(e.Addresses[0])
	if err != nil {
		return Endpoint{}, fmt.Errorf("endpoint: %w", err)
	}
	if addr.Is4() != (family == discoveryv1.AddressTypeIPv4) {
		return Endpoint{}, fmt.Errorf("endpoint %s is not of the slice's family %s", addr, family)
	}
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
		return Endpoint{}, fmt.Errorf("endpoint %s cannot be forwarded to", addr)
	}
	out := Endpoint{Addr: addr, Ready: isTrue(e.Conditions.Ready, true)}
	out.Serving = isTrue(e.Conditions.Serving, true)
	out.Terminating = isTrue(e.Conditions.Terminating, false)
	if e.NodeName != nil {
		out.Node = *e.NodeName
	}
	return out, nil
}

func isTrue(p *bool, absent bool) bool {
	if p == nil {
		return absent
	}
	return *p
}

// FromNode converts a Node. The addresses a Service can be reached at are the
// InternalIPs (node port addresses "primary", the default of kube-proxy's
// nftables mode, KEP-3866).
func FromNode(n *corev1.Node) (Node, error) {
	out := Node{Name: n.Name, Leaving: n.DeletionTimestamp != nil}
	var errs []error
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		addr, err := parseAddr(a.Address)
		if err != nil {
			errs = append(errs, fmt.Errorf("internal IP: %w", err))
			continue
		}
		out.InternalIPs = append(out.InternalIPs, addr)
	}
	cidrs := n.Spec.PodCIDRs
	if len(cidrs) == 0 && n.Spec.PodCIDR != "" {
		cidrs = []string{n.Spec.PodCIDR}
	}
	for _, text := range cidrs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod CIDR: %w", err))
			continue
		}
		out.PodCIDRs = append(out.PodCIDRs, p.Masked())
	}
	for _, t := range n.Spec.Taints {
		if t.Key == ToBeDeletedTaint {
			out.Leaving = true
		}
	}
	if len(errs) > 0 {
		return out, fmt.Errorf("node %s: %w", n.Name, errors.Join(errs...))
	}
	return out, nil
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
