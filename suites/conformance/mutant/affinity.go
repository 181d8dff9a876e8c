package mutant

import (
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// stickyMutations are wrong about affinity at one kind of address, for one state of an endpoint or one timeout alone.
func stickyMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-forgotten-with-fewer-endpoints-at-node-port":     affinityForgottenWithFewer(at(plan.NodePort)),
		"affinity-forgotten-with-fewer-endpoints-at-load-balancer": affinityForgottenWithFewer(at(plan.LoadBalancer)),
		"affinity-forgotten-with-more-endpoints-at-load-balancer":  affinityForgottenWithMore(at(plan.LoadBalancer)),
		"affinity-forgotten-with-more-endpoints-at-node-port":      affinityForgottenWithMore(at(plan.NodePort)),
		"first-endpoint-preferred-with-affinity": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Affinity > 0 && len(r.Endpoints) > 2 {
				r.Endpoints = append(slices.Repeat(r.Endpoints[:1], 2*len(r.Endpoints)), r.Endpoints...)
			}
		}),
		"affinity-to-draining-endpoints-at-load-balancer": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Affinity > 0 && f.Kind == plan.LoadBalancer && r.Action == plan.Forward {
				r.Endpoints = append(r.Endpoints, f.Draining...)
			}
		}),
		"affinity-to-unready-endpoints-for-udp": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Affinity > 0 && f.Key.Protocol == objects.UDP && r.Action == plan.Forward {
				r.Endpoints = append(r.Endpoints, f.Unready...)
			}
		}),
		"terminating-not-used-with-affinity": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Affinity > 0 && r.Terminating {
				*r = plan.Route{Action: plan.Drop}
			}
		}),
		"affinity-not-for-days":        affinityLost(func(f *plan.Frontend) bool { return f.Affinity >= 24*time.Hour }),
		"affinity-not-for-hours":       affinityLost(func(f *plan.Frontend) bool { return f.Affinity == 3*time.Hour }),
		"affinity-ends-after-a-minute": frontends(func(f *plan.Frontend) { f.Affinity = min(f.Affinity, time.Minute) }),
	}
}

// affinityForgottenWithFewer forgets the clients of some frontends whenever they have fewer endpoints.
func affinityForgottenWithFewer(of func(*plan.Frontend) bool) func(*changes) {
	return affinityForgottenWhen(of, func(had, has int) bool { return has < had })
}

// affinityForgottenWithMore forgets them whenever they have more, but for the first.
func affinityForgottenWithMore(of func(*plan.Frontend) bool) func(*changes) {
	return affinityForgottenWhen(of, func(had, has int) bool { return had > 0 && has > had })
}

func affinityForgottenWhen(of func(*plan.Frontend) bool, forget func(had, has int) bool) func(*changes) {
	return func(c *changes) {
		had, forgotten := map[plan.Key]int{}, map[plan.Key]uint16{}
		frontends(func(f *plan.Frontend) {
			if f.Affinity == 0 || !of(f) {
				return
			}
			has := len(f.Outside.Endpoints)
			if forget(had[f.Key], has) {
				forgotten[f.Key]++
			}
			had[f.Key] = has
			f.Group.Port += 1000 * forgotten[f.Key]
		})(c)
	}
}
