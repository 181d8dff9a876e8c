package mutant

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// healthMutations say something else at healthCheckNodePorts than is true.
func healthMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"hcnp-always-200": answers(func(r *http.Response) { r.StatusCode = http.StatusOK }),
		"hcnp-always-503": answers(func(r *http.Response) { r.StatusCode = http.StatusServiceUnavailable }),
		"hcnp-only-at-healthz": answers(func(r *http.Response) {
			if r.Request.URL.Path != "/" && r.Request.URL.Path != "/healthz" {
				r.StatusCode = http.StatusNotFound
			}
		}),
		"hcnp-without-weight":       answers(func(r *http.Response) { r.Header.Del("X-Load-Balancing-Endpoint-Weight") }),
		"hcnp-without-content-type": answers(func(r *http.Response) { r.Header.Set("Content-Type", "text/plain") }),
		"hcnp-without-proxy-health": answers(func(r *http.Response) { edit(r, func(b map[string]any) { delete(b, "serviceProxyHealthy") }) }),
		"hcnp-without-service":      answers(func(r *http.Response) { edit(r, func(b map[string]any) { delete(b, "service") }) }),
		"hcnp-counts-one-more": counts(func(hc *plan.HealthCheck) {
			if hc.IPv4 > 0 {
				hc.IPv4++
			}
			if hc.IPv6 > 0 {
				hc.IPv6++
			}
		}),
		"hcnp-missing-without-node-ports": servicesOf(func(s *corev1.Service) {
			if !ptr.Deref(s.Spec.AllocateLoadBalancerNodePorts, true) {
				s.Spec.HealthCheckNodePort = 0
			}
		}),
		"hcnp-within-source-ranges": checksWithinRanges,
		"hcnp-count-stuck":          countsStuck,
		"hcnp-of-services-mixed-up": checksMixedUp,
		"hcnp-not-closed":           checksKept,
		"hcnp-tainted-is-down":      hcnpTaint,
	}
}

// proxyHealthMutations say something else about the proxy and its node than is true.
func proxyHealthMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"healthz-ignores-taint": nodeOf(func(n *corev1.Node) { n.Spec.Taints = nil }),
		"healthz-follows-any-taint": nodeOf(func(n *corev1.Node) {
			for i := range n.Spec.Taints {
				n.Spec.Taints[i].Key = objects.ToBeDeletedTaint
			}
		}),
		"healthz-follows-cordon": nodeOf(func(n *corev1.Node) {
			if n.Spec.Unschedulable {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: objects.ToBeDeletedTaint})
			}
		}),
		"healthz-follows-readiness": nodeOf(func(n *corev1.Node) {
			if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
			}) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: objects.ToBeDeletedTaint})
			}
		}),
		"livez-follows-taint": func(c *changes) {
			leaving := watchTaint(c)
			c.health = func(r *http.Response) error {
				if leaving() && r.Request.URL.Path == "/livez" {
					r.StatusCode = http.StatusServiceUnavailable
				}
				return nil
			}
		},
		"livez-missing": healths(func(r *http.Response) {
			if r.Request.URL.Path == "/livez" {
				r.StatusCode = http.StatusNotFound
			}
		}),
		"healthz-missing-on-one-node": func(c *changes) {
			c.options = func(_ context.Context, a *agent.Config) {
				if strings.HasSuffix(a.Node, "4") {
					c.health = func(r *http.Response) error { r.StatusCode = http.StatusNotFound; return nil }
				}
			}
		},
		"healthz-without-eligibility": healths(func(r *http.Response) { edit(r, func(b map[string]any) { delete(b, "nodeEligible") }) }),
		"healthz-always-eligible": healths(func(r *http.Response) {
			edit(r, func(b map[string]any) {
				if b["nodeEligible"] != nil {
					b["nodeEligible"] = true
				}
			})
		}),
		"healthz-without-time":          healths(func(r *http.Response) { edit(r, func(b map[string]any) { delete(b, "lastUpdated") }) }),
		"healthz-without-families":      healths(func(r *http.Response) { edit(r, func(b map[string]any) { delete(b, "status") }) }),
		"healthz-200-before-first-sync": healths(healthyAtOnce),
		"tainted-node-stops": func(c *changes) {
			leaving := watchTaint(c)
			c.plan = func(p *plan.Plan) {
				if leaving() {
					p.Node.Addrs = nil
				}
			}
		},
	}
}

// checksWithinRanges has healthCheckNodePorts answer those alone whom loadBalancerSourceRanges let in.
func checksWithinRanges(c *changes) {
	var ranges sync.Map // of Services, by their port
	servicesOf(func(s *corev1.Service) {
		ranges.Store(fmt.Sprint(s.Spec.HealthCheckNodePort), s.Spec.LoadBalancerSourceRanges)
	})(c)
	c.answer = func(r *http.Response) error {
		from, bad := netip.ParseAddrPort(r.Request.RemoteAddr)
		of, _ := ranges.Load(r.Request.URL.Port()) // of who is behind, which is the same
		within, _ := of.([]string)
		holds := func(p string) bool { return netip.MustParsePrefix(p).Contains(from.Addr().Unmap()) }
		if bad == nil && len(within) > 0 && !slices.ContainsFunc(within, holds) {
			r.StatusCode = http.StatusForbidden
		}
		return nil
	}
}

// countsStuck tells of the endpoints that a Service had when it first had some.
func countsStuck(c *changes) {
	first := map[objects.Name]plan.HealthCheck{}
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		maps.DeleteFunc(first, func(name objects.Name, was plan.HealthCheck) bool { return checks[name].Port != was.Port })
		for name, hc := range checks {
			if was, stuck := first[name]; stuck {
				checks[name] = was
			} else if hc.IPv4 > 0 || hc.IPv6 > 0 {
				first[name] = hc
			}
		}
	}
}

// checksMixedUp has all Services of one behaviour answer like the one with the most.
func checksMixedUp(c *changes) {
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		for name, hc := range checks {
			for other, o := range checks {
				if of(name) == of(other) {
					hc.IPv4, hc.IPv6 = max(hc.IPv4, o.IPv4), max(hc.IPv6, o.IPv6)
				}
			}
			checks[name] = hc
		}
	}
}

// healthyAtOnce takes an answer without the state of a family, which is one from before
// the first sync, for a good one.
func healthyAtOnce(r *http.Response) {
	edit(r, func(b map[string]any) {
		if b["status"] == nil && r.Request.URL.Path == "/healthz" {
			r.StatusCode = http.StatusOK
		}
	})
}

func answers(f func(*http.Response)) func(*changes) {
	return func(c *changes) { c.answer = func(r *http.Response) error { f(r); return nil } }
}

func healths(f func(*http.Response)) func(*changes) {
	return func(c *changes) { c.health = func(r *http.Response) error { f(r); return nil } }
}

func counts(f func(*plan.HealthCheck)) func(*changes) {
	return func(c *changes) {
		c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
			for name, hc := range checks {
				f(&hc)
				checks[name] = hc
			}
		}
	}
}

// of is the behaviour that a Service belongs to.
func of(name objects.Name) string {
	i := strings.LastIndex(name.Name, "-s")
	return name.Name[:max(i, 0)]
}

// checksKept closes no healthCheckNodePort: what a Service has no more goes on to tell of the endpoints that
// it had last.
func checksKept(c *changes) {
	seen := map[objects.Name]plan.HealthCheck{}
	c.synced = func(_ *plan.Node, checks map[objects.Name]plan.HealthCheck) {
		taken := map[uint16]bool{}
		for name, hc := range checks {
			taken[hc.Port] = true
			if hc.IPv4+hc.IPv6 > 0 || seen[name].Port != hc.Port { // slices may go before their Service
				seen[name] = hc
			}
		}
		for name, hc := range seen {
			if _, there := checks[name]; !there && !taken[hc.Port] {
				checks[name] = hc
			}
		}
	}
}

// watchTaint tells whether the node is about to be deleted.
func watchTaint(c *changes) func() bool {
	var leaving atomic.Bool
	nodeOf(func(n *corev1.Node) {
		leaving.Store(slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == objects.ToBeDeletedTaint }))
	})(c)
	return leaving.Load
}

func hcnpTaint(c *changes) {
	leaving := watchTaint(c)
	c.answer = func(r *http.Response) error {
		if leaving() {
			r.StatusCode = http.StatusServiceUnavailable
		}
		return nil
	}
}

func nodeOf(f func(*corev1.Node)) func(*changes) {
	return func(c *changes) {
		c.object = func(o runtime.Object) {
			if n, ok := o.(*corev1.Node); ok {
				f(n)
			}
		}
	}
}

// edit changes a body of JSON.
func edit(r *http.Response, f func(map[string]any)) {
	text, err := io.ReadAll(r.Body)
	body := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		text = fmt.Append(nil, err)
	} else {
		f(body)
		text, _ = json.Marshal(body) // it was JSON before
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	r.ContentLength = int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
}
