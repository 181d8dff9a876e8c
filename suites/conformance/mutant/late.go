package mutant

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// lateMutations are wrong after a change, or where something takes the place of another.
func lateMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"affinity-keeps-target-ports":               targetsOnce(func(f *plan.Frontend) bool { return f.Affinity > 0 }),
		"affinity-to-gone-endpoints-under-local":    gonerKept(func(f *plan.Frontend) bool { return f.Inside != nil }),
		"affinity-outlives-its-service":             affinityOutlives,
		"affinity-at-start-not-kept":                affinityAtStartLost,
		"slices-made-anew-at-once-lost":             slicesAnewLost,
		"duplicates-go-with-their-first-slice":      duplicatesGo,
		"load-balancer-port-of-first-protocol-only": firstProtocolOnly,
		"node-ports-go-with-the-other-protocol":     nodePortsGo,
		"later-node-ports-not-served-for-udp":       laterNodePortsLost,
		"node-ports-lost-with-another-port-number":  nodePortsLostWithNumber,
		"unready-endpoints-stay-at-node-port":       unreadyStay,
		"changes-beyond-256-of-a-service-not-heard": changesBeyond(256),
		"last-endpoints-stay-at-node-port":          lastStay(plan.NodePort),
		"load-balancers-outlive-their-service":      servicesStay(func(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) > 0 }),
		"source-range-changes-not-noticed-for-udp":  rangesOnceForUDP,
		"ports-of-a-service-share-local-endpoints":  portsShareLocal,
		"terminating-not-used-beside-a-ready-port":  noFallbackBeside(func(_, _ plan.Frontend) bool { return true }),
		"made-as-external-name-stays-it": first(func(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeExternalName },
			func(s *corev1.Service, was bool) {
				if was {
					s.Spec.Type = corev1.ServiceTypeExternalName
				}
			}),
	}
}

// affinityOutlives has frontends with affinity lead to the endpoints too that the Service had which had them before.
func affinityOutlives(c *changes) {
	type service struct {
		uid      string
		now, old []plan.Endpoint
	}
	var mu sync.Mutex // guards uid, which a watch writes and the Loop reads
	uid, had := map[string]string{}, map[plan.Key]service{}
	servicesOf(func(s *corev1.Service) {
		mu.Lock()
		defer mu.Unlock()
		uid[s.Name] = string(s.UID)
	})(c)
	c.plan = services(func(name objects.Name, s *plan.Service) {
		mu.Lock()
		defer mu.Unlock()
		for i, f := range s.Frontends {
			was := had[f.Key]
			if was.uid != uid[name.Name] {
				was = service{uid[name.Name], nil, was.now}
			}
			was.now = slices.Clone(f.Outside.Endpoints)
			if had[f.Key] = was; f.Affinity > 0 && f.Outside.Action == plan.Forward {
				s.Frontends[i].Outside.Endpoints = append(f.Outside.Endpoints, was.old...)
			}
		}
	})
}

// affinityAtStartLost has no affinity for the Services that are there when the agent starts.
func affinityAtStartLost(c *changes) {
	var found map[objects.Name]bool
	c.plan = func(p *plan.Plan) {
		if found == nil {
			found = map[objects.Name]bool{}
			services(func(name objects.Name, _ *plan.Service) { found[name] = true })(p)
		}
		services(func(name objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				if found[name] {
					s.Frontends[i].Affinity = 0
				}
			}
		})(p)
	}
}

// slicesAnewLost does not hear of a slice that is made at once under the name of one that was deleted.
func slicesAnewLost(c *changes) {
	gone, lost := map[string]time.Time{}, map[types.UID]bool{}
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		s, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			return true
		}
		switch t {
		case watch.Deleted:
			gone[s.Name] = time.Now()
		case watch.Added:
			lost[s.UID] = time.Since(gone[s.Name]) < 100*time.Millisecond
		}
		return !lost[s.UID]
	}
}

// duplicatesGo forgets an endpoint that is in two slices with the one that had it first.
func duplicatesGo(c *changes) {
	owner := map[string]string{} // the first slice, by Service and address
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			key := s.Labels[discoveryv1.LabelServiceName] + " " + e.Addresses[0]
			if owner[key] == "" {
				owner[key] = s.Name
			}
			return owner[key] != s.Name
		})
	})(c)
}

// firstProtocolOnly serves a port of a load balancer's address for the protocol alone that had it first.
func firstProtocolOnly(c *changes) {
	first := map[netip.AddrPort]objects.Protocol{}
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			key := netip.AddrPortFrom(f.Key.Addr, f.Key.Port)
			if _, ok := first[key]; !ok {
				first[key] = f.Key.Protocol
			}
			return f.Kind == plan.LoadBalancer && first[key] != f.Key.Protocol
		})
	})
}

// nodePortsGo does not serve a number any more that was a node port for two protocols and is one for one.
func nodePortsGo(c *changes) {
	had := map[uint16]map[plan.Key]bool{}
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		now := map[plan.Key]bool{}
		for _, f := range s.Frontends {
			if f.Kind == plan.NodePort {
				if now[f.Key] = true; had[f.Key.Port] == nil {
					had[f.Key.Port] = map[plan.Key]bool{}
				}
				had[f.Key.Port][f.Key] = true
			}
		}
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			lost := false
			for key := range had[f.Key.Port] {
				lost = lost || key.IPv6 == f.Key.IPv6 && !now[key]
			}
			return f.Kind == plan.NodePort && lost
		})
	})
}

// laterNodePortsLost serves no node ports for UDP of Services that had none when they were made.
func laterNodePortsLost(c *changes) {
	with := map[objects.Name]bool{}
	c.plan = services(func(name objects.Name, s *plan.Service) {
		isNodePort := func(f plan.Frontend) bool { return f.Kind == plan.NodePort }
		if _, known := with[name]; !known {
			with[name] = slices.ContainsFunc(s.Frontends, isNodePort)
		}
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			return isNodePort(f) && !with[name] && f.Key.Protocol == objects.UDP
		})
	})
}

// nodePortsLostWithNumber does not serve a node port of which the Service's own port has another number now.
func nodePortsLostWithNumber(c *changes) {
	first := map[plan.Key]plan.Key{}
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		s.Frontends = slices.DeleteFunc(s.Frontends, func(f plan.Frontend) bool {
			if _, ok := first[f.Key]; !ok {
				first[f.Key] = f.Group
			}
			was := first[f.Key]
			return f.Kind == plan.NodePort && was.Addr == f.Group.Addr && was.Port != f.Group.Port
		})
	})
}

// unreadyStay goes on using at node ports the endpoints that are not ready any more.
func unreadyStay(c *changes) {
	had := map[plan.Key][]plan.Endpoint{}
	frontends(func(f *plan.Frontend) {
		if f.Kind != plan.NodePort || f.Outside.Action != plan.Forward {
			return
		}
		for _, e := range f.Unready {
			if slices.Contains(had[f.Key], e) {
				f.Outside.Endpoints = append(f.Outside.Endpoints, e)
			}
		}
		had[f.Key] = append(had[f.Key], f.Outside.Endpoints...)
	})(c)
}

// changesBeyond hears of so many changes of a Service and its slices at most.
func changesBeyond(many int) func(*changes) {
	return func(c *changes) {
		var mu sync.Mutex // guards heard, which watches of two kinds use
		heard := map[string]int{}
		c.hears = func(_ watch.EventType, o runtime.Object) bool {
			mu.Lock()
			defer mu.Unlock()
			var name string
			switch o := o.(type) {
			case *corev1.Service:
				name = o.Name
			case *discoveryv1.EndpointSlice:
				name = o.Labels[discoveryv1.LabelServiceName]
			}
			heard[name]++
			return name == "" || heard[name] <= many
		}
	}
}

// portsShareLocal takes a node that has an endpoint for one port of a Service for one that has some for each.
func portsShareLocal(c *changes) {
	c.plan = services(func(_ objects.Name, s *plan.Service) {
		for i, f := range s.Frontends {
			here := func(o plan.Frontend) bool { return o.Kind == f.Kind && o.Outside.Action == plan.Forward }
			if f.Inside != nil && f.Outside.Action == plan.Drop && slices.ContainsFunc(s.Frontends, here) {
				clusterOutside(&s.Frontends[i])
			}
		}
	})
}

// noFallbackBeside uses no endpoints that terminate at a frontend of a Service beside some that have a ready one.
func noFallbackBeside(these func(f, ready plan.Frontend) bool) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			for i, f := range s.Frontends {
				beside := func(o plan.Frontend) bool {
					return o.Outside.Action == plan.Forward && !o.Outside.Terminating && these(f, o)
				}
				if f.Outside.Terminating && slices.ContainsFunc(s.Frontends, beside) {
					s.Frontends[i].Outside = plan.Route{Action: plan.Reject}
				}
			}
		})
	}
}

// rangesOnceForUDP holds for UDP the source ranges that a load balancer's address had first.
func rangesOnceForUDP(c *changes) {
	first := map[plan.Key]plan.Frontend{}
	frontends(func(f *plan.Frontend) {
		if f.Kind != plan.LoadBalancer || f.Key.Protocol != objects.UDP {
			return
		}
		if _, ok := first[f.Key]; !ok {
			first[f.Key] = *f
		}
		f.Restricted, f.Sources = first[f.Key].Restricted, first[f.Key].Sources
	})(c)
}
