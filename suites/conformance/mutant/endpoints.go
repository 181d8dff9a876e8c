package mutant

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// conditionMutations misread the conditions of endpoints.
func conditionMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"terminating-as-ready": endpoints(func(e *discoveryv1.Endpoint) {
			if is(e.Conditions.Terminating) && servesAt(e) {
				e.Conditions.Ready = new(true)
			}
		}),
		"not-ready-as-ready": endpoints(func(e *discoveryv1.Endpoint) {
			if !is(e.Conditions.Terminating) {
				e.Conditions.Ready = nil
			}
		}),
		"serving-ignored": endpoints(func(e *discoveryv1.Endpoint) {
			if is(e.Conditions.Terminating) {
				e.Conditions.Serving = nil
			}
		}),
		"unset-ready-is-not-ready": endpoints(func(e *discoveryv1.Endpoint) {
			if e.Conditions.Ready == nil {
				e.Conditions.Ready = new(false)
			}
		}),
		"unset-serving-is-not-serving": endpoints(func(e *discoveryv1.Endpoint) {
			if e.Conditions.Serving == nil {
				e.Conditions.Serving = new(false)
			}
		}),
		"ready-terminating-not-used": endpoints(func(e *discoveryv1.Endpoint) {
			if is(e.Conditions.Terminating) {
				e.Conditions.Ready = new(false)
			}
		}),
		"terminating-not-serving-beside-ready": slicesOf(func(s *discoveryv1.EndpointSlice) {
			if slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return isOr(e.Conditions.Ready, true) }) {
				for i, e := range s.Endpoints {
					if is(e.Conditions.Terminating) {
						s.Endpoints[i].Conditions.Serving = new(false)
					}
				}
			}
		}),
		"fallback-missing": func(c *changes) {
			c.options = func(_ context.Context, a *agent.Config) { a.Plan.Terminating = plan.Ignore }
		},
		"endpoint-without-node-is-local": onNodes(func(e *discoveryv1.Endpoint, _ string) bool { return e.NodeName == nil }),
		"local-by-prefix": onNodes(func(e *discoveryv1.Endpoint, node string) bool {
			return strings.HasPrefix(ptr.Deref(e.NodeName, ""), node)
		}),
		"local-by-suffix": onNodes(func(e *discoveryv1.Endpoint, node string) bool {
			return strings.HasSuffix(ptr.Deref(e.NodeName, ""), node)
		}),
		"endpoint-without-node-dropped": slicesOf(func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.NodeName == nil })
		}),
	}
}

// hintMutations misread hints and the places they are about.
func hintMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"zone-hints-ignored": endpoints(func(e *discoveryv1.Endpoint) {
			if e.Hints != nil {
				e.Hints.ForZones = nil
			}
		}),
		"node-hints-ignored": endpoints(func(e *discoveryv1.Endpoint) {
			if e.Hints != nil {
				e.Hints.ForNodes = nil
			}
		}),
		"endpoints-without-hint-left-out": slicesOf(func(s *discoveryv1.EndpointSlice) {
			hinted := func(e discoveryv1.Endpoint) bool { return e.Hints != nil }
			if slices.ContainsFunc(s.Endpoints, hinted) {
				s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return !hinted(e) })
			}
		}),
		"unready-endpoints-decide-on-hints": slicesOf(func(s *discoveryv1.EndpointSlice) {
			if slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return !isOr(e.Conditions.Ready, true) && e.Hints == nil }) {
				for i := range s.Endpoints {
					s.Endpoints[i].Hints = nil
				}
			}
		}),
		"hints-hold-for-terminating":    hintsAlways(func(e *discoveryv1.Endpoint) bool { return is(e.Conditions.Terminating) }),
		"hinted-elsewhere-never-used":   hintsAlways(func(e *discoveryv1.Endpoint) bool { return isOr(e.Conditions.Ready, true) }),
		"node-zone-changes-not-noticed": zonesOnce,
		"node-zone-unknown-after-start": zoneUnknownAfterStart,
	}
}

// sliceMutations misread EndpointSlices.
func sliceMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"first-slice-only": firstSliceOnly,
		"slice-deletions-lost": func(c *changes) {
			c.hears = func(t watch.EventType, o runtime.Object) bool {
				_, slice := o.(*discoveryv1.EndpointSlice)
				return t != watch.Deleted || !slice
			}
		},
		"last-slice-stays": lastSliceStays,
		"headless-slices-used": func(c *changes) {
			c.asks = func(o *metav1.ListOptions) {
				if strings.Contains(o.LabelSelector, objects.LabelHeadless) {
					o.LabelSelector = ""
				}
			}
			slicesOf(func(s *discoveryv1.EndpointSlice) { delete(s.Labels, objects.LabelHeadless) })(c)
		},
		"target-ports-of-slice-swapped": slicesOf(func(s *discoveryv1.EndpointSlice) {
			if len(s.Ports) > 1 && *s.Ports[0].Protocol == *s.Ports[1].Protocol {
				s.Ports[0].Port, s.Ports[1].Port = s.Ports[1].Port, s.Ports[0].Port
			}
		}),
		"target-port-changes-not-noticed": targetPortsOnce,
		"target-port-of-first-slice":      targetPortOfFirstSlice,
	}
}

func slicesOf(f func(*discoveryv1.EndpointSlice)) func(*changes) {
	return func(c *changes) {
		c.object = func(o runtime.Object) {
			if s, ok := o.(*discoveryv1.EndpointSlice); ok {
				f(s)
			}
		}
	}
}

func endpoints(f func(*discoveryv1.Endpoint)) func(*changes) {
	return slicesOf(func(s *discoveryv1.EndpointSlice) {
		for i := range s.Endpoints {
			f(&s.Endpoints[i])
		}
	})
}

func is(p *bool) bool { return isOr(p, false) }

func isOr(p *bool, absent bool) bool { return p == nil && absent || p != nil && *p }

func servesAt(e *discoveryv1.Endpoint) bool { return isOr(e.Conditions.Serving, true) }

// onNodes takes some endpoints for the node's own.
func onNodes(own func(e *discoveryv1.Endpoint, node string) bool) func(*changes) {
	return func(c *changes) {
		var node string
		c.options = func(_ context.Context, a *agent.Config) { node = a.Node }
		endpoints(func(e *discoveryv1.Endpoint) {
			if own(e, node) {
				e.NodeName = &node
			}
		})(c)
	}
}

// hintsAlways leaves out the endpoints of a state that are hinted for other zones
// than the node's, also where others are hinted for none.
func hintsAlways(of func(*discoveryv1.Endpoint) bool) func(*changes) {
	return func(c *changes) {
		var zone string
		c.object = func(o runtime.Object) {
			switch o := o.(type) {
			case *corev1.Node:
				zone = o.Labels[corev1.LabelTopologyZone]
			case *discoveryv1.EndpointSlice:
				o.Endpoints = slices.DeleteFunc(o.Endpoints, func(e discoveryv1.Endpoint) bool {
					return of(&e) && e.Hints != nil && len(e.Hints.ForZones) > 0 &&
						!slices.ContainsFunc(e.Hints.ForZones, func(z discoveryv1.ForZone) bool { return z.Name == zone })
				})
			}
		}
	}
}

// zonesOnce takes the zone that the node had first for its zone.
func zonesOnce(c *changes) {
	var first *string
	c.object = func(o runtime.Object) {
		n, ok := o.(*corev1.Node)
		if !ok {
			return
		}
		if first == nil {
			first = new(n.Labels[corev1.LabelTopologyZone])
		}
		n.Labels[corev1.LabelTopologyZone] = *first
	}
}

// zoneUnknownAfterStart does not learn its node's zone if it finds rules of an agent before it.
func zoneUnknownAfterStart(c *changes) {
	found := sync.OnceValue(func() bool {
		left, err := nftables.Left(0)
		return err == nil && len(left) > 0
	})
	c.object = func(o runtime.Object) {
		if n, ok := o.(*corev1.Node); ok && found() {
			delete(n.Labels, corev1.LabelTopologyZone)
		}
	}
}

// firstSliceOnly takes no endpoint of a Service's other slices than the first.
func firstSliceOnly(c *changes) {
	first := map[string]string{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		of := s.Labels[discoveryv1.LabelServiceName]
		if first[of] == "" {
			first[of] = s.Name
		}
		if first[of] != s.Name {
			s.Endpoints = nil
		}
	})(c)
}

// lastSliceStays does not hear that the only slice of a Service is deleted.
func lastSliceStays(c *changes) {
	of := map[string]map[string]bool{} // slices by Service
	c.hears = func(t watch.EventType, o runtime.Object) bool {
		s, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			return true
		}
		svc := s.Labels[discoveryv1.LabelServiceName]
		if of[svc] == nil {
			of[svc] = map[string]bool{}
		}
		of[svc][s.Name] = true
		if t == watch.Deleted {
			delete(of[svc], s.Name)
		}
		return len(of[svc]) > 0
	}
}

// targetPortsOnce takes the port numbers that a slice had first.
func targetPortsOnce(c *changes) {
	first := map[string]int32{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		for i, p := range s.Ports {
			key := s.Name + "/" + *p.Name
			if _, ok := first[key]; !ok {
				first[key] = *p.Port
			}
			s.Ports[i].Port = new(first[key])
		}
	})(c)
}

// targetPortOfFirstSlice takes the port numbers of a Service's first slice for all.
func targetPortOfFirstSlice(c *changes) {
	first := map[string]*discoveryv1.EndpointSlice{}
	slicesOf(func(s *discoveryv1.EndpointSlice) {
		of := s.Labels[discoveryv1.LabelServiceName]
		if f := first[of]; f == nil || f.Name == s.Name {
			first[of] = s.DeepCopy()
			return
		}
		for i, p := range s.Ports {
			for _, f := range first[of].Ports {
				if *f.Name == *p.Name {
					s.Ports[i].Port = f.Port
				}
			}
		}
	})(c)
}
