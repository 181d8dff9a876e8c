package loop

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// round applies what has come in since the last one and reports success.
func (l *Loop) round(ctx context.Context) bool {
	waiting := l.Status().Waiting
	old, new := l.collect()
	if new == nil {
		return true
	}
	begin := time.Now()
	err := l.cfg.Target.Apply(ctx, old, new)
	took := time.Since(begin)
	var refused *plan.Refused
	if errors.As(err, &refused) {
		err = nil
	}
	l.observe(Round{Services: len(new.Services), Complete: old == nil, Waited: begin.Sub(waiting), Took: took, Failed: err != nil})
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
	l.complain(new, refused)
	if l.keepChecks(new, old) || first {
		l.cfg.HealthChecks.Sync(l.applied.Node, maps.Clone(l.checks))
	}
	done := l.keepFlows(ctx, old, new)
	l.settled(begin, done)
	return done
}

func (l *Loop) observe(r Round) {
	if l.cfg.Observe != nil {
		l.cfg.Observe(r)
	}
}

// settled brings the status up to date after a round that began at a time.
func (l *Loop) settled(begin time.Time, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := len(l.dirty) > 0 || l.node || l.lost || !done
	l.tell(func(s *Status) {
		s.Applied = time.Now()
		s.Services, s.Refused = len(l.applied.Services), len(l.refused)
		s.Waiting = time.Time{}
		if left {
			s.Waiting = begin // what is left came after this round began
		}
	})
}

// keepFlows tells the Flows of a change, of everything after one they missed.
func (l *Loop) keepFlows(ctx context.Context, old, new *plan.Plan) bool {
	if l.cfg.Flows == nil {
		return true
	}
	if !l.flows {
		old, new = nil, &l.applied
	}
	if err := l.cfg.Flows.Apply(ctx, old, new); err != nil {
		if ctx.Err() == nil {
			l.cfg.Logger.Error("stale flows not ended, will retry", "err", err)
		}
		l.flows, l.known = false, false
		return false
	}
	l.flows = true
	return true
}

// complain sets aside what the kernel refused and tells what is odd.
func (l *Loop) complain(new *plan.Plan, refused *plan.Refused) {
	for name, s := range new.Services {
		var why []string
		for _, f := range s.Frontends {
			if refused == nil {
				break
			}
			if err := refused.Frontends[f.Key]; err != nil {
				why = append(why, f.Key.String()+": "+err.Error())
			}
		}
		l.warn(l.refused, name, reasonRefused, strings.Join(why, "; "))
		l.warn(l.odd, name, reasonOdd, strings.Join(s.Warnings, "; "))
	}
}

// collect takes the changed Services and brings l.applied up to date. It returns
// plans of just these before and after, or nil and the complete plan; a nil new
// means that there is nothing to do.
func (l *Loop) collect() (old, new *plan.Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known && len(l.dirty) == 0 && !l.node && !l.lost {
		// A retry took it along, or the change was none. Under mu: nothing can
		// have come since.
		l.tell(func(s *Status) { s.Waiting = time.Time{} })
		return nil, nil
	}
	node := l.applied.Node
	if l.node {
		l.applied.Node = plan.BuildNode(&l.snap, l.cfg.Options)
	}
	old = &plan.Plan{Node: node, Services: make(map[objects.Name]plan.Service, len(l.dirty))}
	new = &plan.Plan{Node: l.applied.Node, Services: make(map[objects.Name]plan.Service, len(l.dirty))}
	for name := range l.dirty {
		l.rebuild(name, old, new)
	}
	l.addRivals(old, new)
	clear(l.dirty)
	known := l.known && !l.lost
	l.node, l.lost = false, false
	if !known {
		return nil, &l.applied
	}
	return old, new
}

// rebuild replaces one Service in l.applied, with its states before and after.
func (l *Loop) rebuild(name objects.Name, old, new *plan.Plan) {
	was, had := l.applied.Services[name]
	if had {
		old.Services[name] = was
		delete(l.applied.Services, name)
	}
	s, has := plan.BuildService(&l.snap, name, l.cfg.Options)
	if has {
		new.Services[name] = s
		l.applied.Services[name] = s
	} else {
		delete(l.odd, name)
		delete(l.refused, name)
	}
	l.claims.Set(name, was, s)
}

// addRivals adds the unchanged Services that claim a frontend of a changed one:
// who has it depends on all of them.
func (l *Loop) addRivals(old, new *plan.Plan) {
	for _, p := range []*plan.Plan{old, new} {
		for name, s := range maps.Clone(p.Services) {
			for _, rival := range l.claims.Rivals(name, s) {
				if !l.dirty[rival] {
					old.Services[rival] = l.applied.Services[rival]
					new.Services[rival] = l.applied.Services[rival]
				}
			}
		}
	}
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
