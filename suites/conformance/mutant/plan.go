package mutant

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// refusalMutations write rules that refuse or masquerade otherwise than was decided.
func refusalMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"cluster-ip-rejects-silently":    silently(plan.ClusterIP),
		"load-balancer-rejects-silently": silently(plan.LoadBalancer),
		"external-ip-rejects-silently":   silently(plan.ExternalIP),
		"node-port-rejects-silently":     silently(plan.NodePort),
		"no-local-external-rejected": func(c *changes) {
			c.options = func(_ context.Context, a *agent.Config) { a.Plan.NoLocal = plan.Reject }
		},
		"no-local-internal-rejected": routes(func(f *plan.Frontend, r *plan.Route) {
			if f.Kind == plan.ClusterIP && r.Action == plan.Drop {
				r.Action = plan.Reject
			}
		}),
		"other-ports-not-rejected": func(c *changes) {
			c.plan = services(func(_ objects.Name, s *plan.Service) {
				s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool { return f.Key.IsWildcard() })
			})
		},
		"short-circuit-missing-at-node-port":       outside(plan.NodePort),
		"short-circuit-missing-at-load-balancer":   outside(plan.LoadBalancer),
		"short-circuit-missing-at-external-ip":     outside(plan.ExternalIP),
		"never-masqueraded-at-load-balancer":       masquerade(plan.LoadBalancer, plan.MasqAlways, plan.KeepSource),
		"masqueraded-at-cluster-ip":                masquerade(plan.ClusterIP, plan.MasqOffCluster, plan.MasqAlways),
		"masqueraded-at-node-port-under-local":     masqueradedUnderLocal(plan.NodePort),
		"masqueraded-at-load-balancer-under-local": masqueradedUnderLocal(plan.LoadBalancer),
		"load-balancer-dropped-inside":             droppedInside(plan.LoadBalancer),
		"node-port-dropped-inside":                 droppedInside(plan.NodePort),
		"node-port-dropped-inside-under-local": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort && f.Inside != nil {
				f.Inside = &plan.Route{Action: plan.Drop}
			}
		}),
		"node-port-ignores-local": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort && f.Inside != nil && f.Affinity == 0 {
				f.Outside, f.Inside = *f.Inside, nil
				f.Outside.Masquerade = plan.MasqAlways
			}
		}),
	}
}

// choiceMutations write other endpoints into the rules than were chosen.
func choiceMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"one-endpoint-missing": routes(func(_ *plan.Frontend, r *plan.Route) {
			if len(r.Endpoints) > 3 {
				r.Endpoints = r.Endpoints[:len(r.Endpoints)-1]
			}
		}),
		"first-endpoint-preferred": routes(func(_ *plan.Frontend, r *plan.Route) {
			if len(r.Endpoints) > 2 {
				r.Endpoints = append(r.Endpoints, r.Endpoints[0], r.Endpoints[0])
			}
		}),
		"node-port-missing-on-one-node":     missingOnOneNode(plan.NodePort),
		"load-balancer-missing-on-one-node": missingOnOneNode(plan.LoadBalancer),
		"node-ports-not-served-for-udp":     dropped(func(f plan.Frontend) bool { return f.Kind == plan.NodePort && f.Key.Protocol == objects.UDP }),
		"load-balancer-not-served-for-udp": dropped(func(f plan.Frontend) bool {
			return f.Kind == plan.LoadBalancer && f.Key.Protocol == objects.UDP
		}),
		"source-ranges-not-held-for-udp": frontends(func(f *plan.Frontend) {
			if f.Key.Protocol == objects.UDP {
				f.Restricted, f.Sources = false, nil
			}
		}),
		"source-ranges-not-held-under-local": frontends(func(f *plan.Frontend) {
			if f.Inside != nil {
				f.Restricted, f.Sources = false, nil
			}
		}),
		"source-ranges-hold-at-cluster-ip":  restricted(plan.ClusterIP),
		"source-ranges-hold-at-external-ip": restricted(plan.ExternalIP),
	}
}

// affinityMutations write rules that remember clients wrongly.
func affinityMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-to-gone-endpoints": gonerKept(func(*plan.Frontend) bool { return true }),
		"affinity-per-service":       groupOf(func(s *plan.Service, _ plan.Frontend) plan.Key { return s.Frontends[firstPort(s)].Group }),
		"affinity-per-address":       groupOf(func(_ *plan.Service, f plan.Frontend) plan.Key { return f.Key }),
		"affinity-not-at-node-port": frontends(func(f *plan.Frontend) {
			if f.Kind == plan.NodePort {
				f.Affinity = 0
			}
		}),
		"affinity-not-for-udp": frontends(func(f *plan.Frontend) {
			if f.Key.Protocol == objects.UDP {
				f.Affinity = 0
			}
		}),
		"affinity-to-one-endpoint-for-all": oneForAll,
		"affinity-never-ends": frontends(func(f *plan.Frontend) {
			if f.Affinity > 0 {
				f.Affinity = 24 * time.Hour
			}
		}),
		"node-ports-at-pod-addresses": func(c *changes) {
			c.plan = func(p *plan.Plan) { p.Node.Addrs = append(slices.Clone(p.Node.Addrs), podAddrs(p.Node)...) }
		},
	}
}

// silently drops where it should be refused.
func silently(k plan.Kind) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if f.Kind == k && r.Action == plan.Reject && !f.Key.IsWildcard() {
			r.Action = plan.Drop
		}
	})
}

// outside holds for everybody.
func outside(k plan.Kind) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		if f.Kind == k {
			f.Inside = nil
		}
	})
}

// droppedInside drops what a node and its own pods send there.
func droppedInside(k plan.Kind) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		if f.Kind == k {
			f.Inside = &plan.Route{Action: plan.Drop}
		}
	})
}

func masquerade(k plan.Kind, from, to plan.Masquerade) func(*changes) {
	return routes(func(f *plan.Frontend, r *plan.Route) {
		if f.Kind == k && r.Masquerade == from {
			r.Masquerade = to
		}
	})
}

func masqueradedUnderLocal(k plan.Kind) func(*changes) {
	return frontends(func(f *plan.Frontend) {
		if f.Kind == k && f.Inside != nil {
			f.Outside.Masquerade, f.Inside.Masquerade = plan.MasqAlways, plan.MasqAlways
		}
	})
}

func dropped(f func(plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) { s.Frontends = slices.DeleteFunc(s.Frontends, f) })
	}
}

// missingOnOneNode leaves out frontends of a kind on the node whose name ends so.
func missingOnOneNode(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.options = func(_ context.Context, a *agent.Config) {
			if strings.HasSuffix(a.Node, "4") {
				dropped(func(f plan.Frontend) bool { return f.Kind == k })(c)
			}
		}
	}
}

// restricted holds the source ranges of a Service's load balancer addresses at
// those of another kind too.
func restricted(k plan.Kind) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			lb := slices.IndexFunc(s.Frontends, func(f plan.Frontend) bool { return f.Restricted })
			for i, f := range s.Frontends {
				if lb >= 0 && f.Kind == k && !f.Key.IsWildcard() {
					s.Frontends[i].Restricted, s.Frontends[i].Sources = true, s.Frontends[lb].Sources
				}
			}
		})
	}
}

func groupOf(group func(*plan.Service, plan.Frontend) plan.Key) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			for i, f := range s.Frontends {
				if !f.Key.IsWildcard() {
					s.Frontends[i].Group = group(s, f)
				}
			}
		})
	}
}

func firstPort(s *plan.Service) int {
	return slices.IndexFunc(s.Frontends, func(f plan.Frontend) bool { return !f.Key.IsWildcard() })
}

// gonerKept keeps the endpoints that routes of some frontends with affinity lost last.
func gonerKept(of func(*plan.Frontend) bool) func(*changes) {
	type at struct {
		key    plan.Key
		inside bool
	}
	return func(c *changes) {
		had := map[at][]plan.Endpoint{}
		routes(func(f *plan.Frontend, r *plan.Route) {
			key := at{f.Key, r != &f.Outside}
			for _, e := range had[key] {
				if f.Affinity > 0 && of(f) && r.Action == plan.Forward && !slices.Contains(r.Endpoints, e) {
					r.Endpoints = append(r.Endpoints, e)
				}
			}
			had[key] = slices.Clone(r.Endpoints)
		})(c)
	}
}

// oneForAll leaves frontends with affinity one endpoint, the same for as long as they
// have it.
func oneForAll(c *changes) {
	had := map[plan.Key]plan.Endpoint{}
	frontends(func(f *plan.Frontend) {
		if f.Affinity == 0 || len(f.Outside.Endpoints) == 0 {
			return
		}
		if !slices.Contains(f.Outside.Endpoints, had[f.Key]) {
			had[f.Key] = f.Outside.Endpoints[0]
		}
		f.Outside.Endpoints = []plan.Endpoint{had[f.Key]}
	})(c)
}

// podAddrs are those that a lab's pods may have.
func podAddrs(n plan.Node) []netip.Addr {
	var out []netip.Addr
	for _, p := range n.LocalPods {
		for node := range byte(16) { // of a lab
			at := p.Addr().AsSlice()
			if p.Addr().Is6() {
				at[7] = node
			} else {
				at[2] = node
			}
			a, _ := netip.AddrFromSlice(at)
			for range 253 {
				a = a.Next()
				out = append(out, a)
			}
		}
	}
	return out
}
