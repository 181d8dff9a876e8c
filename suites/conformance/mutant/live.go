package mutant

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// liveMutations do not follow one change of an object that lives, or of one that is gone.
func liveMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"external-ips-added-later-not-served": externalIPsAddedLost,
		"second-external-ip-ignored": servicesOf(func(s *corev1.Service) {
			s.Spec.ExternalIPs = s.Spec.ExternalIPs[:min(1, len(s.Spec.ExternalIPs))]
		}),
		"external-ips-outlive-their-service": externalIPServicesStay,
	}
}

// externalIPsAddedLost serves the external IPs alone that a Service had when it was made.
func externalIPsAddedLost(c *changes) {
	had := map[string][]string{}
	servicesOf(func(s *corev1.Service) {
		if _, ok := had[string(s.UID)]; !ok {
			had[string(s.UID)] = slices.Clone(s.Spec.ExternalIPs)
		}
		s.Spec.ExternalIPs = slices.DeleteFunc(s.Spec.ExternalIPs, func(a string) bool { return !slices.Contains(had[string(s.UID)], a) })
	})(c)
}

// externalIPServicesStay does not hear that a Service with external IPs is deleted, nor that its slices are.
func externalIPServicesStay(c *changes) {
	var mu sync.Mutex // guards stays, which watches of two kinds use
	stays := map[string]bool{}
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case *corev1.Service:
			stays[o.Name] = stays[o.Name] || len(o.Spec.ExternalIPs) > 0
			return t != watch.Deleted || !stays[o.Name]
		case *discoveryv1.EndpointSlice:
			return t != watch.Deleted || !stays[o.Labels[discoveryv1.LabelServiceName]]
		}
		return true
	}
}
