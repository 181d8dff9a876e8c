package kit

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// slice is one of a Service's, of the spec's family. Without ports it has those of the Service, at their target
// numbers.
func (s *Spec) slice(of *corev1.Service, name string, ports []discoveryv1.EndpointPort, eps []Endpoint) *discoveryv1.EndpointSlice {
	if ports == nil {
		for _, p := range of.Spec.Ports {
			ports = append(ports, SlicePort(p.Name, p.Protocol, p.TargetPort.IntVal))
		}
	}
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name + "-" + name,
			Labels: map[string]string{discoveryv1.LabelServiceName: of.Name, discoveryv1.LabelManagedBy: "plumbline"},
		},
		AddressType: discoveryv1.AddressType(s.Family), Ports: ports,
	}
	for _, e := range eps {
		out.Endpoints = append(out.Endpoints, e.object(s.Family))
	}
	return out
}

// LabelledSlice makes a slice with further labels from its beginning, at the ports'
// target numbers.
func (v *Service) LabelledSlice(name string, labels map[string]string, eps ...Endpoint) {
	s := v.spec
	slice := s.slice(v.obj, name, nil, eps)
	maps.Copy(slice.Labels, labels)
	s.must(s.putSlice(slice), "write EndpointSlice %s", slice.Name)
	s.did(handSlice(slice), "wrote EndpointSlice %s with labels %v: %s", slice.Name, labels, sliceText(slice))
	if _, headless := labels[corev1.IsHeadlessService]; !headless {
		v.wrote(name, writtenAs(s.Family, slice.Ports, eps))
	}
	s.changed()
}

// SliceOfNames makes a slice of what has names and no addresses (addressType FQDN), which no proxy uses.
func (v *Service) SliceOfNames(name string, names ...string) {
	s := v.spec
	slice := s.slice(v.obj, name, nil, nil)
	slice.AddressType = discoveryv1.AddressTypeFQDN
	for _, n := range names {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{n}})
	}
	s.must(s.putSlice(slice), "write EndpointSlice %s", slice.Name)
	s.did(handSlice(slice), "wrote EndpointSlice %s: %s", slice.Name, sliceText(slice))
	s.changed()
}

// DeleteSlice deletes one of the Service's slices.
func (v *Service) DeleteSlice(name string) {
	s := v.spec
	err := s.env.client.DiscoveryV1().EndpointSlices(s.env.namespace).Delete(s.ctx, v.obj.Name+"-"+name, metav1.DeleteOptions{})
	s.must(err, "delete EndpointSlice %s-%s", v.obj.Name, name)
	v.wrote(name, nil)
	s.did(handDelete("endpointslice", v.obj.Name+"-"+name), "deleted EndpointSlice %s-%s", v.obj.Name, name)
	s.changed()
}

// In has f see the behaviour in a family, of a cluster with both: slices written
// there and addresses asked for are of it.
func (s *Spec) In(family corev1.IPFamily, f func()) {
	before := s.Family
	defer func() { s.Family = before }()
	s.Family = family
	f()
}

// InBoth has f see the behaviour in each family.
func InBoth(s *Spec, f func(corev1.IPFamily)) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		s.In(family, func() { f(family) })
	}
}

// SliceOf is a slice's name that is another in each family.
func SliceOf(f corev1.IPFamily) string { return strings.ToLower(string(f)) }

// DualStack makes it a Service of both families, of which the behaviour's own is the first.
func DualStack(o *corev1.Service) {
	o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
}

// ClusterIPOf is where a Service of both families is reached by one of them, at its
// first port.
func (v *Service) ClusterIPOf(family corev1.IPFamily) netip.AddrPort {
	for i, f := range v.obj.Spec.IPFamilies {
		if f == family {
			return netip.AddrPortFrom(netip.MustParseAddr(v.obj.Spec.ClusterIPs[i]), uint16(v.obj.Spec.Ports[0].Port))
		}
	}
	panic(fmt.Errorf("Service %s has no address of family %s", v.obj.Name, family))
}
