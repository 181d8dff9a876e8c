package mutant

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// togetherMutations decide at once, for all of something, what is to be decided for each alone.
func togetherMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"local-decided-by-first-port-at-load-balancer": decidedByFirstPort(plan.LoadBalancer),
		"local-decided-by-first-port-at-external-ip":   decidedByFirstPort(plan.ExternalIP),
		"terminating-not-used-beside-other-family":     noFallbackBeside(func(f, ready plan.Frontend) bool { return f.Key.IPv6 != ready.Key.IPv6 }),
		"slices-of-names-spoil-others":                 namesSpoil,
		"hcnp-not-where-type-changed": func(c *changes) {
			other := map[string]bool{} // by UID
			servicesOf(func(s *corev1.Service) {
				key := string(s.UID)
				if other[key] = other[key] || s.Spec.Type != corev1.ServiceTypeLoadBalancer; other[key] {
					s.Spec.HealthCheckNodePort = 0
				}
			})(c)
		},
	}
}

// decidedByFirstPort has what holds for a Service's first port at an address of a kind, under policy Local, hold for
// all of them there.
func decidedByFirstPort(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			var first *plan.Route
			for i, f := range s.Frontends {
				if f.Kind != k || f.Inside == nil {
					continue
				}
				if first == nil {
					first = &s.Frontends[i].Outside
				}
				s.Frontends[i].Outside = *first
			}
		})
	}
}

// namesSpoil forwards to no endpoint of a Service any more that has had a slice of names.
func namesSpoil(c *changes) {
	var spoilt sync.Map // by the Service's name
	c.object = func(o runtime.Object) {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok && s.AddressType == discoveryv1.AddressTypeFQDN {
			spoilt.Store(s.Labels[discoveryv1.LabelServiceName], true)
		}
	}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		if _, ok := spoilt.Load(name.Name); !ok {
			return
		}
		for i := range s.Frontends {
			s.Frontends[i].Outside, s.Frontends[i].Inside = plan.Route{Action: plan.Reject}, nil
		}
	})
}
