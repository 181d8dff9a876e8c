// Package loop carries changes of objects to the node: change -> plan ->
// Target.Apply -> health checks.
//
// There is no waiting for its own sake. A change that finds the loop idle is
// applied at once; what comes while an Apply runs is taken together by the next
// one, so the batches grow with the load and no further. One changed Service
// costs a plan of that Service, however many there are.
//
// Order: rules first, then the healthCheckNodePort listeners and counts. A load
// balancer must not learn of an endpoint before the rules can reach it.
//
// A failed Apply is retried with growing delay, as a complete one: the Target
// reads back what is there and writes only what differs.
package loop

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Target is a backend. Apply brings the kernel from old to new; a nil old means
// that the kernel's state is not known and new is complete.
type Target interface {
	Apply(ctx context.Context, old, new *plan.Plan) error
}

// HealthChecks serves the healthCheckNodePorts.
type HealthChecks interface {
	// Sync replaces all healthCheckNodePorts and the addresses they listen at.
	Sync(node plan.Node, checks map[objects.Name]plan.HealthCheck)
}

// Config is what a Loop needs.
type Config struct {
	Options      plan.Options
	Target       Target
	HealthChecks HealthChecks
	Logger       *slog.Logger
}

// Loop is the state between the objects and the kernel.
type Loop struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	snap    objects.Snapshot      // guarded by mu
	dirty   map[objects.Name]bool // guarded by mu; Services not applied yet
	node    bool                  // guarded by mu; the Node is not applied yet
	started bool                  // guarded by mu; the first changes are in

	// statusMu is taken for moments only, and after mu where both are: probes
	// must not wait while a plan of all Services is built.
	statusMu sync.Mutex
	status   Status // guarded by statusMu

	// Only Run touches the rest.
	applied plan.Plan
	checks  map[objects.Name]plan.HealthCheck
	known   bool // the Target holds what applied says
}

// Status is what /healthz and /livez tell.
type Status struct {
	// Applied is the time of the last successful Apply, zero before the first.
	Applied time.Time
	// Waiting is when the oldest change that is not applied came in; zero if
	// there is none.
	Waiting time.Time
	// Ineligible: the own Node is unknown, or going away (KEP-3836). No load
	// balancer should send here.
	Ineligible bool
}

// New makes a Loop that does nothing before Run.
func New(cfg Config) *Loop {
	return &Loop{
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		dirty:   map[objects.Name]bool{},
		applied: plan.Plan{Services: map[objects.Name]plan.Service{}},
		checks:  map[objects.Name]plan.HealthCheck{},
		status:  Status{Ineligible: true},
	}
}

// Handle takes changes in. The first call must bring the complete state; until
// then nothing is applied. It does not block.
func (l *Loop) Handle(changes []objects.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		touched, node := l.snap.Apply(c)
		for _, name := range touched {
			l.dirty[name] = true
		}
		l.node = l.node || node
	}
	if l.snap.Node == nil && !l.started {
		l.cfg.Logger.Warn("own node is not known yet; node ports are not served before it is")
	}
	l.started = true
	ineligible := l.snap.Node == nil || l.snap.Node.Leaving
	l.tell(func(s *Status) {
		s.Ineligible = ineligible
		if s.Waiting.IsZero() {
			s.Waiting = time.Now()
		}
	})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Status is safe to call at any time, and never waits for a plan or the kernel.
func (l *Loop) Status() Status {
	l.statusMu.Lock()
	defer l.statusMu.Unlock()
	return l.status
}

func (l *Loop) tell(change func(*Status)) {
	l.statusMu.Lock()
	defer l.statusMu.Unlock()
	change(&l.status)
}

// The delays between attempts after a failure.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
)

// Run applies changes until ctx ends. What is in the kernel then stays there.
func (l *Loop) Run(ctx context.Context) error {
	delay := retryFirst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		}
		for !l.round(ctx) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(delay):
			}
			delay = min(2*delay, retryMost)
		}
		delay = retryFirst
	}
}

// round applies what has come in since the last one and reports success.
func (l *Loop) round(ctx context.Context) bool {
	old, new := l.collect()
	if new == nil {
		return true
	}
	begin := time.Now()
	if err := l.cfg.Target.Apply(ctx, old, new); err != nil {
		if ctx.Err() == nil {
			l.cfg.Logger.Error("change not applied, will retry", "services", len(new.Services), "err", err)
		}
		l.known = false
		return false
	}
	l.cfg.Logger.Debug("applied", "services", len(new.Services), "complete", old == nil, "took", time.Since(begin))
	first := !l.known
	l.known = true
	if l.keepChecks(new, old) || first {
		l.cfg.HealthChecks.Sync(l.applied.Node, maps.Clone(l.checks))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left := len(l.dirty) > 0 || l.node
	l.tell(func(s *Status) {
		s.Applied = time.Now()
		s.Waiting = time.Time{}
		if left {
			s.Waiting = begin // what is left came after this round began
		}
	})
	return true
}

// collect takes the changed Services and brings l.applied up to date. It returns
// plans of just these before and after, or nil and the complete plan; a nil new
// means that there is nothing to do.
func (l *Loop) collect() (old, new *plan.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known && len(l.dirty) == 0 && !l.node {
		// A retry took it along, or the change was none. Under mu: nothing can
		// have come since.
		l.tell(func(s *Status) { s.Waiting = time.Time{} })
		return nil, nil
	}
	node := l.applied.Node
	if l.node {
		l.applied.Node = plan.BuildNode(l.snap.Node, l.cfg.Options)
	}
	old = &plan.Plan{Node: node, Services: make(map[objects.Name]plan.Service, len(l.dirty))}
	new = &plan.Plan{Node: l.applied.Node, Services: make(map[objects.Name]plan.Service, len(l.dirty))}
	for name := range l.dirty {
		if s, ok := l.applied.Services[name]; ok {
			old.Services[name] = s
			delete(l.applied.Services, name)
		}
		if s, ok := plan.BuildService(&l.snap, name, l.cfg.Options); ok {
			new.Services[name] = s
			l.applied.Services[name] = s
		}
	}
	clear(l.dirty)
	l.node = false
	if !l.known {
		return nil, &l.applied
	}
	return old, new
}

// keepChecks brings the health checks up to date and tells whether they changed.
func (l *Loop) keepChecks(new, old *plan.Plan) bool {
	if old == nil {
		clear(l.checks)
		old = &plan.Plan{}
	}
	changed := !old.Node.Equal(new.Node)
	for name, was := range old.Services {
		if _, still := new.Services[name]; !still && was.HealthCheck != nil {
			delete(l.checks, name)
			changed = true
		}
	}
	for name, s := range new.Services {
		was, had := l.checks[name]
		switch {
		case s.HealthCheck == nil && had:
			delete(l.checks, name)
			changed = true
		case s.HealthCheck != nil && (!had || was != *s.HealthCheck):
			l.checks[name] = *s.HealthCheck
			changed = true
		}
	}
	return changed
}
