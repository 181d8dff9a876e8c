package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// round applies what has come in since the last one and reports success.
func (l *Loop) round(ctx context.Context) bool {
	old, new, waiting := l.collect()
	if new == nil {
		return true
	}
	begin := time.Now()
	if !l.apply(ctx, old, new, begin.Sub(waiting)) {
		return false
	}
	l.settled(begin)
	return true
}

// apply tells the Target of a change, and then the health checks.
func (l *Loop) apply(ctx context.Context, old, new *plan.Plan, waited time.Duration) bool {
	if l.cfg.Flows != nil {
		l.cfg.Flows.Changing()
	}
	begin := time.Now()
	err := l.cfg.Target.Apply(ctx, old, new)
	took := time.Since(begin)
	var refused *plan.Refused
	if errors.As(err, &refused) {
		err = nil
	}
	r := Round{Services: len(new.Services), Complete: old == nil, Waited: waited, Took: took, Failed: err != nil}
	if err == nil {
		r.Triggers, l.taken = l.taken, nil
	}
	l.observe(r)
	if err != nil {
		if ctx.Err() == nil {
			l.cfg.Logger.Error("change not applied, will retry", "services", len(new.Services), "err", err)
		}
		l.known = false
		return false
	}
	l.cfg.Logger.Debug("applied", "services", len(new.Services), "complete", old == nil, "took", took)
	first := !l.known
	l.known = true
	l.setAside(old, new, refused)
	l.countLocal(old, new)
	l.tellFlows(old, new)
	if l.keepChecks(new, old) || first {
		l.cfg.HealthChecks.Sync(l.applied.Node, maps.Clone(l.checks))
	}
	return true
}

func (l *Loop) observe(r Round) {
	if l.cfg.Observe != nil {
		l.cfg.Observe(r)
	}
}

// settled brings the status up to date after a round that began at a time.
func (l *Loop) settled(begin time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := len(l.dirty) > 0 || l.node || l.lost
	l.tell(func(s *Status) {
		s.Applied = time.Now()
		s.Services, s.Refused, s.NoLocal = len(l.applied.Services), l.refusedServices(), l.noLocal
		s.Waiting, s.Done = time.Time{}, l.doing
		if left {
			s.Waiting = begin // what is left came after this round began
		}
	})
}

// countLocal brings up to date what policy Local leaves without an endpoint.
func (l *Loop) countLocal(old, new *plan.Plan) {
	if old == nil {
		old, l.noLocal = &plan.Plan{}, plan.NoLocal{}
	}
	for _, s := range old.Services {
		l.noLocal.Add(s.NoLocal(), -1)
	}
	for _, s := range new.Services {
		l.noLocal.Add(s.NoLocal(), 1)
	}
}

// tellFlows tells them of a change that is in.
func (l *Loop) tellFlows(old, new *plan.Plan) {
	if l.cfg.Flows == nil {
		return
	}
	if new == &l.applied { // which the next round changes
		new = &plan.Plan{Node: new.Node, Services: maps.Clone(new.Services)}
	}
	l.cfg.Flows.Changed(old, new, maps.Clone(l.refused))
}

// setAside keeps what the kernel refused of a change, and tells the owners of
// that and of what is odd.
func (l *Loop) setAside(old, new *plan.Plan, refused *plan.Refused) {
	if old == nil {
		clear(l.refused)
		old = &plan.Plan{}
	}
	for _, p := range []*plan.Plan{old, new} {
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				delete(l.refused, f.Key)
			}
		}
	}
	if refused != nil {
		maps.Copy(l.refused, refused.Frontends)
	}
	owners := map[objects.Name][]string{}
	if len(l.refused) > 0 {
		for k, o := range plan.Owners(new) {
			if err := l.refused[k]; err != nil {
				owners[o.Service] = append(owners[o.Service], k.String()+": "+err.Error())
			}
		}
	}
	rivals := plan.Rivalries(new)
	for name, s := range new.Services {
		slices.Sort(owners[name])
		l.warn(l.toldRivals, l.cfg.Events.WarnOfObject, name, reasonRivals, strings.Join(rivals[name], "; "))
		l.warn(l.toldRefused, l.cfg.Events.Warn, name, reasonRefused, strings.Join(owners[name], "; "))
		l.warn(l.toldOdd, l.cfg.Events.WarnOfObject, name, reasonOdd, strings.Join(s.Warnings, "; "))
	}
}

// refusedServices counts the Services with a refused frontend.
func (l *Loop) refusedServices() int { return len(l.toldRefused) }

// collect takes the changed Services and brings l.applied up to date. It returns
// plans of just these before and after, or nil and the complete plan, and since
// when they wait; a nil new means that there is nothing to do.
func (l *Loop) collect() (old, new *plan.Plan, waiting time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waiting = l.Status().Waiting; waiting.IsZero() {
		waiting = time.Now()
	}
	l.taken, l.trigger, l.doing = append(l.taken, l.trigger...), nil, l.seen
	clear(l.emptied)
	if l.known && len(l.dirty) == 0 && !l.node && !l.lost {
		// A retry took it along, or the change was none. Under mu: nothing can
		// have come since.
		l.taken = nil
		l.tell(func(s *Status) { s.Waiting, s.Done = time.Time{}, l.doing })
		return nil, nil, waiting
	}
	old, new = plan.Step(&l.applied, &l.claims, &l.snap, l.cfg.Options, l.dirty, l.node)
	for name := range l.dirty {
		if _, has := new.Services[name]; !has {
			delete(l.toldOdd, name)
			delete(l.toldRivals, name)
			delete(l.toldRefused, name)
		}
	}
	// Not cleared: a map keeps the size it once had, and each round walks it.
	l.dirty = plan.Dirty{}
	known := l.known && !l.lost
	l.node, l.lost = false, false
	if !known {
		return nil, &l.applied, waiting
	}
	// A refused frontend is not in the kernel: it is set again, though it may be
	// the same. One that is gone stays in old, for what was there before it.
	return old.Without(l.again(new)), new, waiting
}

// again are the refused frontends that a plan still has.
func (l *Loop) again(p *plan.Plan) map[plan.Key]error {
	out := map[plan.Key]error{}
	for _, s := range p.Services {
		for _, f := range s.Frontends {
			if err := l.refused[f.Key]; err != nil {
				out[f.Key] = err
			}
		}
	}
	return out
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
