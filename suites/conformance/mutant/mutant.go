// Package mutant breaks one thing about a node agent, by wrapping what it is made of:
//
//	API objects on their way in       asks, hears, object
//	the plan on its way to the kernel plan
//	eBPF programs on their way there  programs
//	answers about health              checks, answer, health
//	the rest of its life              options
//
// Only Services and slices in the conformance suite's namespace are broken: the
// dataplane is installed, and seen to forward, by others. Programs are broken for all, and
// not so that none of those would be served.
package mutant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// changes are what a mutation alters; what is nil stays as it is.
type changes struct {
	asks     func(*metav1.ListOptions)                  // of every kind of object
	hears    func(watch.EventType, runtime.Object) bool // false: an event is lost
	object   func(runtime.Object)                       // of every kind
	plan     func(*plan.Plan)                           // what the kernel gets instead; a copy
	remade   func(plan.Frontend) bool                   // which a change takes away first, and brings back after a while
	programs func(*ebpf.CollectionSpec) error           // of plumb-ebpf, before they are loaded
	started  func(backend.Backend) error                // before the first Apply
	stopped  func(backend.Backend) error                // when the agent has ended
	clean    func() error                               // instead of the backend's
	blind    bool                                       // nothing tells that others changed the kernel's rules
	synced   func(*plan.Node, map[objects.Name]plan.HealthCheck)
	answer   func(*http.Response) error // of a healthCheckNodePort
	health   func(*http.Response) error // of /healthz and /livez
	options  func(context.Context, *agent.Config)
}

// isTarget tells whether the conformance suite has its objects in a namespace.
func isTarget(namespace string) bool {
	return strings.HasPrefix(namespace, "plumbline-") && strings.HasSuffix(namespace, "-conformance")
}

// mutations are all there are. Each call makes the changes anew: they may remember
// what they saw.
func mutations() map[string]func(*changes) {
	all := map[string]func(*changes){"none": func(*changes) {}}
	for _, table := range []map[string]func(*changes){
		conditionMutations(), hintMutations(), sliceMutations(), policyMutations(), addressMutations(), serviceMutations(),
		refusalMutations(), choiceMutations(), affinityMutations(), healthMutations(), proxyHealthMutations(), lifeMutations(), followMutations(), sharedMutations(),
		frontMutations(), sourceMutations(), orderMutations(), scaleMutations(), packetMutations(), narrowMutations(), programMutations(), hintsAtMutations(),
		liveMutations(), liveFrontMutations(), stickyMutations(), besideMutations(), edgeMutations(), lateMutations(), togetherMutations(), everywhereMutations(), againMutations(), apartMutations(),
	} {
		maps.Copy(all, table)
	}
	return all
}

// Names lists them.
func Names() []string { return slices.Sorted(maps.Keys(mutations())) }

// Of returns what makes an agent wrong in one way. It is for one agent.
func Of(name string) (func(context.Context, *agent.Config), error) {
	break_, ok := mutations()[name]
	if !ok {
		return nil, fmt.Errorf("there is no mutation %q; known: %q", name, Names())
	}
	c := &changes{}
	break_(c)
	return c.apply, nil
}

// apply wraps what an agent is made of.
func (c *changes) apply(ctx context.Context, a *agent.Config) {
	a.Backend = c.backend(a.Backend)
	if a.Client == nil { // it only cleans up
		return
	}
	a.Client = brokenClient{a.Client, c}
	if c.synced != nil || c.answer != nil {
		a.HealthChecks = func(real *healthz.Services) loop.HealthChecks {
			return &brokenChecks{real: real, changes: c, open: map[string]*front{}}
		}
	}
	if c.options != nil {
		c.options(ctx, a)
	}
	if c.health != nil && a.Healthz != "" {
		front := front{behind: behindHealthz, answer: c.health, log: a.Logger}
		front.open(a.Healthz)
		a.Healthz = behindHealthz
	}
}

// backend is a backend whose targets are given another plan.
func (c *changes) backend(sound backend.Backend) backend.Backend {
	b := sound
	b.Start = func(o backend.Options, log *slog.Logger) backend.Running {
		if c.started != nil {
			if err := c.started(sound); err != nil {
				log.Error("the mutation itself did not work", "err", err)
			}
		}
		o.Alter = c.programs
		r := sound.Start(o, log)
		r.Target = &brokenTarget{Target: r.Target, c: c}
		if c.blind {
			r.Watch = nil
		}
		if c.stopped != nil {
			end := r.Close
			r.Close = func() error {
				err := end()
				return errors.Join(err, c.stopped(sound)) // it has changed what others are to find as it was
			}
		}
		return r
	}
	if c.clean != nil {
		b.Clean = c.clean
	}
	return b
}

// behindHealthz is where /healthz is served when a front answers in its place.
const behindHealthz = "127.0.0.1:10257"
