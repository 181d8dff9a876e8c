package mutant

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// liveMutations do not follow one change of an object that lives, or of one that is gone.
func liveMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"external-ips-added-later-not-served": externalIPsAddedLost,
		"second-external-ip-ignored": servicesOf(func(s *corev1.Service) {
			s.Spec.ExternalIPs = s.Spec.ExternalIPs[:min(1, len(s.Spec.ExternalIPs))]
		}),
		"external-ips-outlive-their-service":          servicesStay(func(s *corev1.Service) bool { return len(s.Spec.ExternalIPs) > 0 }),
		"endpoints-leave-with-any-slice":              leaveWithAnySlice,
		"health-checks-of-first-slice-only":           checksOfFirstSlice,
		"host-endpoints-not-counted-for-health":       hostsNotCounted,
		"affinity-forgotten-with-fewer-endpoints":     affinityForgottenWithFewer(func(*plan.Frontend) bool { return true }),
		"affinity-to-gone-endpoints-at-load-balancer": gonerKept(at(plan.LoadBalancer)),
		"affinity-to-gone-endpoints-at-node-port":     gonerKept(at(plan.NodePort)),
		"affinity-to-gone-endpoints-for-udp":          gonerKept(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"ports-added-later-without-node-ports":        nodePortsAddedLost,
		"removed-node-ports-kept":                     nodePortsKept,
		"port-protocol-changes-not-noticed":           protocolsKept,
		"load-balancers-made-later-not-served":        laterBalancersLost,
		"flows-to-unready-endpoints-kept": slicesOf(func(s *discoveryv1.EndpointSlice) {
			ready := func(e discoveryv1.Endpoint) bool { return isOr(e.Conditions.Ready, true) }
			for i, e := range s.Endpoints {
				if !ready(e) && !is(e.Conditions.Terminating) && slices.ContainsFunc(s.Endpoints, ready) {
					s.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
				}
			}
		}),
		"services-beyond-128-not-served": servicesBeyond(128),
		"ports-beyond-32767-not-served": servicesOf(func(s *corev1.Service) {
			s.Spec.Ports = slices.DeleteFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port > 32767 })
		}),
		"endpoints-beyond-100-of-a-slice-not-used": slicesOf(func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = s.Endpoints[:min(100, len(s.Endpoints))]
		}),
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

// servicesStay does not hear that some Services are deleted, nor that their slices are.
func servicesStay(these func(*corev1.Service) bool) func(*changes) {
	return func(c *changes) {
		var mu sync.Mutex // guards stays, which watches of two kinds use
		stays := map[string]bool{}
		c.hears = func(t watch.EventType, o runtime.Object) bool {
			mu.Lock()
			defer mu.Unlock()
			switch o := o.(type) {
			case *corev1.Service:
				stays[o.Name] = stays[o.Name] || these(o)
				return t != watch.Deleted || !stays[o.Name]
			case *discoveryv1.EndpointSlice:
				return t != watch.Deleted || !stays[o.Labels[discoveryv1.LabelServiceName]]
			}
			return true
		}
	}
}

// leaveWithAnySlice forgets an endpoint when a slice has it no more, though another one does, until one
// gets it anew.
func leaveWithAnySlice(c *changes) {
	var mu sync.Mutex                    // guards both, which a watch writes and the Loop reads
	in := map[string][]string{}          // endpoints by slice
	left := map[string]map[string]bool{} // by Service
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		s, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		var now []string
		if t != watch.Deleted {
			now = placesIn(s)
		}
		of := s.Labels[discoveryv1.LabelServiceName]
		if left[of] == nil {
			left[of] = map[string]bool{}
		}
		for _, at := range slices.Concat(in[s.Name], now) {
			switch was, is := slices.Contains(in[s.Name], at), slices.Contains(now, at); {
			case was && !is:
				left[of][at] = true
			case is && !was:
				delete(left[of], at)
			}
		}
		in[s.Name] = now
		return true
	}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		mu.Lock()
		defer mu.Unlock()
		for i := range s.Frontends {
			r := &s.Frontends[i].Outside
			r.Endpoints = slices.DeleteFunc(r.Endpoints, func(e plan.Endpoint) bool { return left[name.Name][placeOf(e)] })
			if r.Action == plan.Forward && len(r.Endpoints) == 0 {
				r.Action = plan.Reject
			}
		}
	})
}

// placesIn are where the endpoints of a slice serve.
func placesIn(s *discoveryv1.EndpointSlice) (out []string) {
	for _, e := range s.Endpoints {
		for _, p := range s.Ports {
			out = append(out, net.JoinHostPort(e.Addresses[0], fmt.Sprint(*p.Port)))
		}
	}
	return out
}

func placeOf(e plan.Endpoint) string { return netip.AddrPortFrom(e.Addr, e.Port).String() }

// checksOfFirstSlice has healthCheckNodePorts tell of the endpoints in a Service's first slice alone.
func checksOfFirstSlice(c *changes) {
	var mu sync.Mutex // guards both, which a watch writes and the Loop reads
	var node string
	first, ready := map[string]string{}, map[string]int{}
	c.options = func(_ context.Context, a *agent.Config) { node = a.Node }
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		mu.Lock()
		defer mu.Unlock()
		of := s.Labels[discoveryv1.LabelServiceName]
		if first[of] == "" {
			first[of] = s.Name
		}
		if first[of] != s.Name {
			return
		}
		ready[of] = 0
		for _, e := range s.Endpoints {
			if e.NodeName != nil && *e.NodeName == node && isOr(e.Conditions.Ready, true) {
				ready[of]++
			}
		}
	})(c)
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		mu.Lock()
		defer mu.Unlock()
		for name, hc := range checks {
			hc.IPv4, hc.IPv6 = min(hc.IPv4, ready[name.Name]), min(hc.IPv6, ready[name.Name])
			checks[name] = hc
		}
	}
}

// hostsNotCounted has healthCheckNodePorts tell of the endpoints alone that are not in the node's own network.
func hostsNotCounted(c *changes) {
	var mu sync.Mutex // guards hosts, of rules and of health checks
	hosts := map[objects.Name]map[netip.Addr]bool{}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		mu.Lock()
		defer mu.Unlock()
		hosts[name] = map[netip.Addr]bool{}
		for _, f := range s.Frontends {
			for _, e := range f.Outside.Endpoints {
				if e.Host {
					hosts[name][e.Addr] = true
				}
			}
		}
	})
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		mu.Lock()
		defer mu.Unlock()
		for name, hc := range checks {
			for a := range hosts[name] {
				if a.Is4() {
					hc.IPv4 = max(0, hc.IPv4-1)
				} else {
					hc.IPv6 = max(0, hc.IPv6-1)
				}
			}
			checks[name] = hc
		}
	}
}

// nodePortsAddedLost serves the node ports alone of the ports that a Service had when it was made.
func nodePortsAddedLost(c *changes) {
	had := map[string][]string{}
	servicesOf(func(s *corev1.Service) {
		if had[string(s.UID)] == nil {
			had[string(s.UID)] = names(s.Spec.Ports)
		}
		for i, p := range s.Spec.Ports {
			if !slices.Contains(had[string(s.UID)], p.Name) {
				s.Spec.Ports[i].NodePort = 0
			}
		}
	})(c)
}

// nodePortsKept serves all node ports of the ports that a Service ever had, while it has any.
func nodePortsKept(c *changes) {
	had := map[string]map[string]corev1.ServicePort{}
	servicesOf(func(s *corev1.Service) {
		if s.Spec.Type != corev1.ServiceTypeNodePort {
			return
		}
		if had[string(s.UID)] == nil {
			had[string(s.UID)] = map[string]corev1.ServicePort{}
		}
		for name, p := range had[string(s.UID)] {
			if !slices.Contains(names(s.Spec.Ports), name) {
				p.Port += 20000 // it is gone from the ClusterIP
				s.Spec.Ports = append(s.Spec.Ports, p)
			}
		}
		for _, p := range s.Spec.Ports {
			if _, ok := had[string(s.UID)][p.Name]; !ok {
				had[string(s.UID)][p.Name] = p
			}
		}
	})(c)
}

// protocolsKept leaves each of a Service's ports, by its name, the protocol that it had first.
func protocolsKept(c *changes) {
	first := map[string]corev1.Protocol{}
	servicesOf(func(s *corev1.Service) {
		for i, p := range s.Spec.Ports {
			key := string(s.UID) + p.Name
			if first[key] == "" {
				first[key] = p.Protocol
			}
			s.Spec.Ports[i].Protocol = first[key]
		}
	})(c)
}

// laterBalancersLost serves the load balancer addresses of those Services alone that were made as such.
func laterBalancersLost(c *changes) {
	was := map[string]corev1.ServiceType{}
	servicesOf(func(s *corev1.Service) {
		if was[string(s.UID)] == "" {
			was[string(s.UID)] = s.Spec.Type
		}
		if was[string(s.UID)] != corev1.ServiceTypeLoadBalancer {
			s.Status.LoadBalancer.Ingress = nil
		}
	})(c)
}
