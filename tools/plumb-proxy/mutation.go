//go:build mutations

package main

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// mutation breaks one thing about an agent, by wrapping what it is made of:
//
//	API objects on their way in       asks, hears, object
//	the plan on its way to the kernel plan
//	answers about health              checks, answer, health
//	the rest of its life              options
//
// Only Services and slices in the conformance suite's namespace are broken: the
// dataplane is installed, and seen to forward, by others.
type mutation struct{ *changes }

// changes are what a mutation alters; what is nil stays as it is.
type changes struct {
	asks    func(*metav1.ListOptions)                  // of every kind of object
	hears   func(watch.EventType, runtime.Object) bool // false: an event is lost
	object  func(runtime.Object)                       // of every kind
	plan    func(*plan.Plan)                           // what the kernel gets instead; a copy
	started func(backend) error                        // before the first Apply
	stopped func(backend) error                        // when the agent has ended
	clean   func() error                               // instead of the backend's
	blind   bool                                       // nothing tells that others changed the kernel's rules
	synced  func(*plan.Node, map[objects.Name]plan.HealthCheck)
	answer  func(*http.Response) error // of a healthCheckNodePort
	health  func(*http.Response) error // of /healthz and /livez
	options func(*agent)
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
		refusalMutations(), choiceMutations(), affinityMutations(), healthMutations(), lifeMutations(), followMutations(), sharedMutations(),
	} {
		maps.Copy(all, table)
	}
	return all
}

func (m *mutation) register(fs *flag.FlagSet) {
	fs.Func("mutation", "break one thing on purpose: `name`", func(name string) error {
		break_, ok := mutations()[name]
		if !ok {
			return fmt.Errorf("there is none of this name; known: %q", slices.Sorted(maps.Keys(mutations())))
		}
		m.changes = &changes{}
		break_(m.changes)
		return nil
	})
}

// backend is a backend whose targets are given another plan.
func (m mutation) backend(b backend) backend {
	if m.changes == nil {
		return b
	}
	sound := b
	b.start = func(o backendOptions, log *slog.Logger) running {
		if m.started != nil {
			if err := m.started(sound); err != nil {
				log.Error("the mutation itself did not work", "err", err)
			}
		}
		r := sound.start(o, log)
		r.Target = &brokenTarget{Target: r.Target, c: m.changes}
		if m.blind {
			r.watch = nil
		}
		if m.stopped != nil {
			end := r.close
			r.close = func() error {
				if err := end(); err != nil {
					return err
				}
				return m.stopped(sound)
			}
		}
		return r
	}
	if m.clean != nil {
		b.clean = m.clean
	}
	return b
}

// agent is an agent that is told other things by the API.
func (m mutation) agent(a *agent) *agent {
	if m.changes == nil {
		return a
	}
	a.client = brokenClient{a.client, m.changes}
	if m.options != nil {
		m.options(a)
	}
	if m.health != nil && a.opt.healthz != "" {
		front := front{behind: behindHealthz, answer: m.health, log: a.log}
		front.open(a.opt.healthz)
		a.opt.healthz = behindHealthz
	}
	return a
}

// behindHealthz is where /healthz is served when a front answers in its place.
const behindHealthz = "127.0.0.1:10257"

func (m mutation) checks(c *healthz.Services) loop.HealthChecks {
	if m.changes == nil || m.synced == nil && m.answer == nil {
		return c
	}
	return &brokenChecks{real: c, changes: m.changes, open: map[string]*front{}}
}
