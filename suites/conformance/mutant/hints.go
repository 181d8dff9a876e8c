package mutant

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// hintsAtMutations heed hints at some frontends alone.
func hintsAtMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"hints-ignored-for-udp":                    hintsIgnored(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP && f.Kind == plan.ClusterIP }),
		"hints-ignored-at-node-port":               hintsIgnored(at(plan.NodePort)),
		"hints-ignored-at-load-balancer":           hintsIgnored(at(plan.LoadBalancer)),
		"hints-ignored-at-external-ip":             hintsIgnored(at(plan.ExternalIP)),
		"hints-count-under-local-for-udp":          hintedUnderLocal(func(f *plan.Frontend) bool { return f.Key.Protocol == objects.UDP }),
		"hints-count-under-local-at-load-balancer": hintedUnderLocal(at(plan.LoadBalancer)),
		"node-hint-changes-not-noticed":            nodeHintsOnce,
	}
}

// hintsIgnored forwards also to the ready endpoints of a Service's last slice that hints keep from the
// node.
func hintsIgnored(at func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		var mu sync.Mutex // guards last, which a watch and the loop use
		last := map[objects.Name]*discoveryv1.EndpointSlice{}
		slicesOf(func(s *discoveryv1.EndpointSlice) {
			mu.Lock()
			defer mu.Unlock()
			last[objects.Name{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}] = s.DeepCopy()
		})(c)
		c.plan = services(func(name objects.Name, s *plan.Service) {
			mu.Lock()
			defer mu.Unlock()
			for i := range s.Frontends {
				f := &s.Frontends[i]
				if last[name] == nil || !at(f) || f.Outside.Action != plan.Forward {
					continue
				}
				for _, e := range hintedOf(last[name], f.Key) {
					if !slices.ContainsFunc(f.Outside.Endpoints, func(o plan.Endpoint) bool { return o.Compare(e) == 0 }) {
						f.Outside.Endpoints = append(f.Outside.Endpoints, e)
					}
				}
			}
		})
	}
}

// hintedUnderLocal leaves out, at some frontends under externalTrafficPolicy=Local, endpoints that are hinted for
// other nodes, while there are others.
func hintedUnderLocal(at func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		var elsewhere sync.Map // addresses of a Service
		var node string
		c.options = func(_ context.Context, a *agent.Config) { node = a.Node }
		slicesOf(func(s *discoveryv1.EndpointSlice) {
			for _, e := range s.Endpoints {
				for _, n := range ptr.Deref(e.Hints, discoveryv1.EndpointHints{}).ForNodes {
					elsewhere.Store(s.Labels[discoveryv1.LabelServiceName]+e.Addresses[0], n.Name != node)
				}
			}
		})(c)
		c.plan = services(func(name objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				f := &s.Frontends[i]
				left := slices.DeleteFunc(slices.Clone(f.Outside.Endpoints), func(e plan.Endpoint) bool {
					is, _ := elsewhere.Load(name.Name + e.Addr.String())
					return is == true
				})
				if f.Inside != nil && at(f) && len(left) > 0 {
					f.Outside.Endpoints = left
				}
			}
		})
	}
}

// hintedOf are the ready endpoints of a slice with hints, at its port of a frontend's protocol.
func hintedOf(s *discoveryv1.EndpointSlice, k plan.Key) (out []plan.Endpoint) {
	for _, p := range s.Ports {
		for _, e := range s.Endpoints {
			a, err := netip.ParseAddr(e.Addresses[0])
			if err == nil && a.Is6() == k.IPv6 && e.Hints != nil && isOr(e.Conditions.Ready, true) && strings.EqualFold(string(*p.Protocol), k.Protocol.String()) {
				out = append(out, plan.Endpoint{Addr: a, Port: uint16(*p.Port)})
			}
		}
	}
	return out
}

// nodeHintsOnce takes the hints of nodes that an endpoint of a slice had first.
func nodeHintsOnce(c *changes) {
	first := map[string][]discoveryv1.ForNode{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		for i, e := range s.Endpoints {
			if e.Hints == nil {
				continue
			}
			key := string(s.UID) + e.Addresses[0]
			if first[key] == nil {
				first[key] = e.Hints.ForNodes
			}
			s.Endpoints[i].Hints.ForNodes = first[key]
		}
	})(c)
}
