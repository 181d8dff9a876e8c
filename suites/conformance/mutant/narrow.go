package mutant

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// narrowMutations break what a wider one breaks for one address, client or change alone, so that few
// notice.
func narrowMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-not-at-cluster-ip":     affinityLost(at(plan.ClusterIP)),
		"node-port-not-from-nodes":       notFrom(plan.NodePort, ofNodes),
		"node-port-not-from-pods":        notFrom(plan.NodePort, ofPods),
		"load-balancer-not-from-nodes":   notFrom(plan.LoadBalancer, ofNodes),
		"load-balancer-not-from-pods":    notFrom(plan.LoadBalancer, ofPods),
		"load-balancer-not-from-outside": notFrom(plan.LoadBalancer, ofOutside),
		"external-ip-not-from-nodes":     notFrom(plan.ExternalIP, ofNodes),
		"external-ip-not-from-pods":      notFrom(plan.ExternalIP, ofPods),
		"hairpin-dropped-at-node-port":   hairpinDropped(at(plan.NodePort)),
		"hairpin-dropped-at-node-port-under-local": hairpinDropped(func(f *plan.Frontend) bool {
			return f.Kind == plan.NodePort && f.Inside != nil
		}),
		"terminating-not-used-at-cluster-ip":     terminatingNotUsed(plan.ClusterIP),
		"terminating-not-used-at-node-port":      terminatingNotUsed(plan.NodePort),
		"draining-used-at-cluster-ip":            drainingUsed(plan.ClusterIP),
		"draining-used-at-node-port":             drainingUsed(plan.NodePort),
		"unready-used-at-cluster-ip":             unreadyUsed(plan.ClusterIP),
		"unready-used-at-node-port":              unreadyUsed(plan.NodePort),
		"unready-used-without-ready":             unreadyFallback,
		"source-ranges-hold-at-node-port":        restricted(plan.NodePort),
		"affinity-forgotten-with-more-endpoints": affinityForgotten,
		"reused-cluster-ip-not-served":           reusedNotServed,
		"hcnp-not-for-pods":                      checksNotForPods,
		"terminating-used-for-good":              terminatingForGood,
		"not-ready-stays": conditionsKept(func(c discoveryv1.EndpointConditions) bool {
			return !isOr(c.Ready, true) && !is(c.Terminating)
		}),
		"ready-stays":                     conditionsKept(func(c discoveryv1.EndpointConditions) bool { return isOr(c.Ready, true) }),
		"ports-added-later-not-served":    portsAddedLost,
		"removed-ports-kept":              portsKept,
		"port-number-changes-not-noticed": numbersKept(func(p *corev1.ServicePort) *int32 { return &p.Port }),
		"node-port-changes-not-noticed":   numbersKept(func(p *corev1.ServicePort) *int32 { return &p.NodePort }),
	}
}

// at are the frontends of a kind.
func at(k plan.Kind) func(*plan.Frontend) bool {
	return func(f *plan.Frontend) bool { return f.Kind == k }
}

// unreadyUsed forwards to the endpoints that are not ready beside those that are.
func unreadyUsed(k plan.Kind) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if f.Kind == k && r.Action == plan.Forward {
			r.Endpoints = append(r.Endpoints, f.Unready...)
		}
	})
}

// conditionsKept leaves an endpoint of a slice in the first state of a kind that it was in.
func conditionsKept(when func(discoveryv1.EndpointConditions) bool) func(*changes) {
	return func(c *changes) {
		kept := map[string]discoveryv1.EndpointConditions{}
		slicesOf(func(s *discoveryv1.EndpointSlice) {
			for i, e := range s.Endpoints {
				key := string(s.UID) + " " + e.Addresses[0]
				if _, ok := kept[key]; !ok && when(e.Conditions) {
					kept[key] = e.Conditions
				}
				if was, ok := kept[key]; ok {
					s.Endpoints[i].Conditions = was
				}
			}
		})(c)
	}
}

// portsAddedLost serves the ports alone that a Service had when it was made.
func portsAddedLost(c *changes) {
	had := map[string][]string{}
	servicesOf(func(s *corev1.Service) {
		key := string(s.UID)
		if had[key] == nil {
			had[key] = names(s.Spec.Ports)
		}
		s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return !slices.Contains(had[key], p.Name) })
	})(c)
}

// portsKept serves all ports that a Service ever had.
func portsKept(c *changes) {
	had := map[string][]corev1.ServicePort{}
	servicesOf(func(s *corev1.Service) {
		for _, p := range had[string(s.UID)] {
			if !slices.Contains(names(s.Spec.Ports), p.Name) {
				s.Spec.Ports = append(s.Spec.Ports, p)
			}
		}
		had[string(s.UID)] = slices.Clone(s.Spec.Ports)
	})(c)
}

func names(ports []corev1.ServicePort) (out []string) {
	for _, p := range ports {
		out = append(out, p.Name)
	}
	return out
}

// numbersKept leaves each of a Service's ports, in their order, the number that it had first.
func numbersKept(of func(*corev1.ServicePort) *int32) func(*changes) {
	return func(c *changes) {
		first := map[string][]int32{}
		servicesOf(func(s *corev1.Service) {
			key := string(s.UID)
			for i := range s.Spec.Ports {
				number := of(&s.Spec.Ports[i])
				if i == len(first[key]) {
					first[key] = append(first[key], *number)
				}
				*number = first[key][i]
			}
		})(c)
	}
}

// unreadyFallback forwards to endpoints that are not ready where there are no others.
func unreadyFallback(c *changes) {
	routes(func(f *plan.Frontend, r *plan.Route) {
		if r.Action == plan.Reject && len(f.Unready) > 0 {
			*r = plan.Route{Action: plan.Forward, Endpoints: slices.Clone(f.Unready), Masquerade: plan.MasqOffCluster}
			if f.Kind != plan.ClusterIP {
				r.Masquerade = plan.MasqAlways
			}
		}
	})(c)
}

// terminatingForGood goes on with endpoints that terminate and serve, once it had no others, also when
// others have become ready.
func terminatingForGood(c *changes) {
	type at struct {
		key    plan.Key
		inside bool
	}
	had := map[at][]plan.Endpoint{}
	routes(func(f *plan.Frontend, r *plan.Route) {
		key := at{f.Key, r != &f.Outside}
		left := slices.DeleteFunc(slices.Clone(had[key]), func(e plan.Endpoint) bool { return !slices.Contains(f.Draining, e) })
		switch {
		case r.Terminating:
			had[key] = slices.Clone(r.Endpoints)
		case len(left) > 0 && r.Action == plan.Forward:
			r.Endpoints = left
		default:
			delete(had, key)
		}
	})(c)
}

// affinityForgotten forgets the clients of a frontend whenever it has another number of endpoints.
func affinityForgotten(c *changes) {
	frontends(func(f *plan.Frontend) {
		if f.Affinity > 0 {
			f.Group.Port += uint16(1000 * len(f.Outside.Endpoints))
		}
	})(c)
}

// reusedNotServed serves a ClusterIP for the first Service alone that had it.
func reusedNotServed(c *changes) {
	owner := map[string]string{}
	servicesOf(func(s *corev1.Service) {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			return
		}
		if owner[s.Spec.ClusterIP] == "" {
			owner[s.Spec.ClusterIP] = string(s.UID)
		}
		if owner[s.Spec.ClusterIP] != string(s.UID) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		}
	})(c)
}

// checksNotForPods has healthCheckNodePorts answer hosts alone.
func checksNotForPods(c *changes) {
	var pods atomic.Pointer[[]netip.Prefix]
	c.synced = func(n *plan.Node, _ map[objects.Name]plan.HealthCheck) { pods.Store(new(slices.Clone(n.LocalPods))) }
	c.answer = func(r *http.Response) error {
		from, err := netip.ParseAddrPort(r.Request.RemoteAddr)
		of := pods.Load()
		if err == nil && of != nil && slices.ContainsFunc(*of, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) }) {
			r.StatusCode = http.StatusForbidden
		}
		return nil
	}
}
