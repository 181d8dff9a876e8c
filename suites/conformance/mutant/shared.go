package mutant

import (
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// sharedMutations are wrong about what objects have in common: an endpoint several
// slices or Services, a Service two families, ClusterIPs several ranges.
func sharedMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"ending-duplicates-count":                  endingDuplicates,
		"endpoints-of-two-services-at-most":        twoServicesAtMost,
		"cluster-ips-of-further-ranges-not-served": firstRangeOnly,
		"second-family-not-served": servicesOf(func(s *corev1.Service) {
			s.Spec.IPFamilies = s.Spec.IPFamilies[:min(1, len(s.Spec.IPFamilies))]
			s.Spec.ClusterIPs = s.Spec.ClusterIPs[:min(1, len(s.Spec.ClusterIPs))]
		}),
		"second-family-kept": familiesKept,

		"ports-of-slices-kept": slicePortsKept,
	}
}

// endingDuplicates takes an address for one that has ended if any slice of the Service
// says that it terminates.
func endingDuplicates(c *changes) {
	ending := map[string]map[string][]string{} // by Service and slice
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		of := s.Labels[discoveryv1.LabelServiceName]
		if ending[of] == nil {
			ending[of] = map[string][]string{}
		}
		ending[of][s.Name] = nil
		for i, e := range s.Endpoints {
			if is(e.Conditions.Terminating) {
				ending[of][s.Name] = append(ending[of][s.Name], e.Addresses...)
			}
			for other, addrs := range ending[of] {
				if other != s.Name && slices.Contains(addrs, e.Addresses[0]) {
					s.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)}
				}
			}
		}
	})(c)
}

// twoServicesAtMost leaves an endpoint out of all Services of a behaviour but the first
// two that had it.
func twoServicesAtMost(c *changes) {
	had := map[string][]string{} // the Services, by behaviour and address
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		svc := s.Labels[discoveryv1.LabelServiceName]
		s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			key := of(objects.Name{Name: svc}) + " " + e.Addresses[0]
			if !slices.Contains(had[key], svc) {
				had[key] = append(had[key], svc)
			}
			return slices.Index(had[key], svc) > 1
		})
	})(c)
}

// firstRangeOnly takes Services whose ClusterIP is not of the ServiceCIDR that was heard
// of first for headless.
func firstRangeOnly(c *changes) {
	var mu sync.Mutex // guards first, which watches of two kinds use
	var first []netip.Prefix
	c.object = func(o runtime.Object) {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case *networkingv1.ServiceCIDR:
			for _, text := range o.Spec.CIDRs {
				if p, err := netip.ParsePrefix(text); err == nil && len(first) < len(o.Spec.CIDRs) {
					first = append(first, p)
				}
			}
		case *corev1.Service:
			ip, err := netip.ParseAddr(o.Spec.ClusterIP)
			if err == nil && len(first) > 0 && !slices.ContainsFunc(first, func(p netip.Prefix) bool { return p.Contains(ip) }) {
				o.Spec.ClusterIP, o.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
			}
		}
	}
}

// familiesKept does not take a second family back.
func familiesKept(c *changes) {
	type both struct {
		families []corev1.IPFamily
		addrs    []string
	}
	had := map[string]both{}
	servicesOf(func(s *corev1.Service) {
		if was, ok := had[string(s.UID)]; ok && len(was.addrs) > len(s.Spec.ClusterIPs) {
			s.Spec.IPFamilies, s.Spec.ClusterIPs = was.families, was.addrs
		}
		had[string(s.UID)] = both{s.Spec.IPFamilies, s.Spec.ClusterIPs}
	})(c)
}

// slicePortsKept takes the ports that a slice has no more for ports of it.
func slicePortsKept(c *changes) {
	had := map[string][]discoveryv1.EndpointPort{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		for _, p := range had[string(s.UID)] {
			if !slices.ContainsFunc(s.Ports, func(o discoveryv1.EndpointPort) bool { return ptr.Deref(o.Name, "") == ptr.Deref(p.Name, "") }) {
				s.Ports = append(s.Ports, p)
			}
		}
		had[string(s.UID)] = slices.Clone(s.Ports)
	})(c)
}
