package mutant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// scaleMutations hold as long as there is little of everything.
func scaleMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"endpoints-beyond-100-not-used": onlyFirst(100, func(*plan.Frontend) bool { return true }),
		"ports-beyond-32-not-served":    servicesOf(func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[:min(32, len(s.Spec.Ports))] }),
		"last-of-many-endpoints-preferred": routes(func(_ *plan.Frontend, r *plan.Route) {
			if n := len(r.Endpoints); n > 8 {
				r.Endpoints = append(r.Endpoints, slices.Repeat(r.Endpoints[n-1:], n)...)
			}
		}),
		"first-half-of-many-endpoints-preferred": routes(func(_ *plan.Frontend, r *plan.Route) {
			if n := len(r.Endpoints); n > 8 {
				r.Endpoints = append(r.Endpoints, r.Endpoints[:n/2]...)
			}
		}),
		"ports-beyond-20-of-a-slice-not-served": slicesOf(func(s *discoveryv1.EndpointSlice) {
			s.Ports = s.Ports[:min(20, len(s.Ports))]
		}),
		"endpoints-beyond-500-of-a-slice-not-used": slicesOf(func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = s.Endpoints[:min(500, len(s.Endpoints))]
		}),
		"mass-removal-lost": massRemovalLost,
	}
}

// massRemovalLost leaves a Service's rules as they were with a change that takes more than fifty
// endpoints away: as one that was too large for a transaction.
func massRemovalLost(c *changes) {
	last := map[objects.Name]plan.Service{}
	endpoints := func(s plan.Service) (n int) {
		for _, f := range s.Frontends {
			n = max(n, len(f.Outside.Endpoints))
		}
		return n
	}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		if was := last[name]; endpoints(was) > 50+endpoints(*s) {
			s.Frontends = was.Frontends
			return
		}
		last[name] = *s
	})
}

// servicesBeyond leaves out the Services that come while there are so many.
func servicesBeyond(many int) func(*changes) {
	return func(c *changes) {
		there := map[string]bool{} // by UID; true: it is served
		c.hears = func(t watch.EventType, o runtime.Object) bool {
			s, ok := o.(*corev1.Service)
			if !ok {
				return true
			}
			key := string(s.UID)
			if _, known := there[key]; !known {
				there[key] = len(there) < many
			}
			served := there[key]
			if t == watch.Deleted {
				delete(there, key)
			}
			return served
		}
	}
}
