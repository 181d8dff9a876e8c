package mutant

import (
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// stickyMutations are wrong about affinity at one kind of address, for one state of an endpoint or one timeout alone.
func stickyMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-forgotten-with-fewer-endpoints-at-node-port":     affinityForgottenWithFewer(at(plan.NodePort)),
		"affinity-forgotten-with-fewer-endpoints-at-load-balancer": affinityForgottenWithFewer(at(plan.LoadBalancer)),
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
	return func(c *changes) {
		had, fewer := map[plan.Key]int{}, map[plan.Key]uint16{}
		frontends(func(f *plan.Frontend) {
			if f.Affinity == 0 || !of(f) {
				return
			}
			if n := len(f.Outside.Endpoints); n < had[f.Key] {
				fewer[f.Key]++
			}
			had[f.Key] = len(f.Outside.Endpoints)
			f.Group.Port += 1000 * fewer[f.Key]
		})(c)
	}
}
