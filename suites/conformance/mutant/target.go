package mutant

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// brokenTarget hands on changed plans. It is used by one goroutine, the Loop's.
type brokenTarget struct {
	loop.Target
	c    *changes
	last plan.Plan // what was handed on
}

func (t *brokenTarget) Apply(ctx context.Context, old, new *plan.Plan) error {
	if t.c.plan != nil {
		old, new = t.change(old, new)
	}
	if t.c.remade != nil {
		without := &plan.Plan{Node: new.Node, Services: make(map[objects.Name]plan.Service, len(new.Services))}
		for name, s := range new.Services {
			if isTarget(name.Namespace) {
				s.Frontends = slices.DeleteFunc(slices.Clone(s.Frontends), t.c.remade)
			}
			without.Services[name] = s
		}
		if err := t.Target.Apply(ctx, old, without); err != nil {
			return err
		}
		time.Sleep(remaking)
		old = without
	}
	return t.Target.Apply(ctx, old, new)
}

// remaking is how long what is made anew is away.
const remaking = 20 * time.Millisecond

// change is what was handed on of the same Services before, and what is now.
func (t *brokenTarget) change(old, new *plan.Plan) (*plan.Plan, *plan.Plan) {
	out := &plan.Plan{Node: new.Node, Services: make(map[objects.Name]plan.Service, len(new.Services))}
	for name, s := range new.Services {
		s.Frontends = slices.Clone(s.Frontends)
		for i := range s.Frontends {
			s.Frontends[i] = copyOf(s.Frontends[i])
		}
		out.Services[name] = s
	}
	t.c.plan(out)
	if old == nil {
		t.last = plan.Plan{Services: map[objects.Name]plan.Service{}}
	} else {
		was := &plan.Plan{Node: t.last.Node, Services: map[objects.Name]plan.Service{}}
		for name := range old.Services {
			was.Services[name] = t.last.Services[name]
			delete(t.last.Services, name)
		}
		old = was
	}
	t.last.Node = out.Node
	maps.Copy(t.last.Services, out.Services)
	return old, out
}

func copyOf(f plan.Frontend) plan.Frontend {
	f.Outside.Endpoints = slices.Clone(f.Outside.Endpoints)
	if f.Inside != nil {
		r := *f.Inside
		r.Endpoints = slices.Clone(r.Endpoints)
		f.Inside = &r
	}
	return f
}

// services changes the plan of each Service that may be broken.
func services(f func(objects.Name, *plan.Service)) func(*plan.Plan) {
	return func(p *plan.Plan) {
		for name, s := range p.Services {
			if isTarget(name.Namespace) {
				f(name, &s)
				p.Services[name] = s
			}
		}
	}
}

// frontends changes each frontend of those Services.
func frontends(f func(*plan.Frontend)) func(*changes) {
	return func(c *changes) {
		c.plan = services(func(_ objects.Name, s *plan.Service) {
			for i := range s.Frontends {
				f(&s.Frontends[i])
			}
		})
	}
}

// routes changes each route of them.
func routes(f func(*plan.Frontend, *plan.Route)) func(*changes) {
	return frontends(func(fr *plan.Frontend) {
		eachRoute(fr, func(r *plan.Route) { f(fr, r) })
	})
}

func eachRoute(f *plan.Frontend, change func(*plan.Route)) {
	change(&f.Outside)
	if f.Inside != nil {
		change(f.Inside)
	}
}

// remade has some frontends away for a moment with each change of their Service.
func remade(of func(*plan.Frontend) bool) func(*changes) {
	return func(c *changes) { c.remade = func(f plan.Frontend) bool { return of(&f) } }
}
