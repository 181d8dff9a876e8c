package ebpf

import (
	"fmt"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Live is a plan whose frontends are as the maps pinned in a folder have them, and which of them are
// not there, which stay as planned. Wildcards are no frontends of the maps. What makes no difference
// to a packet (Terminating, Unready) is the plan's.
func Live(p *plan.Plan, pins string) (*plan.Plan, []plan.Key, error) {
	m, err := open(pins)
	if err != nil {
		return nil, nil, fmt.Errorf("list frontends: %w", err)
	}
	s := &state{}
	if m != nil {
		defer m.Close()
		if s, err = read(m); err != nil {
			return nil, nil, fmt.Errorf("list frontends: %w", err)
		}
	}
	out, missing := &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{}}, []plan.Key(nil)
	for name, svc := range p.Services {
		there := make([]plan.Frontend, 0, len(svc.Frontends))
		for _, f := range svc.Frontends {
			if !f.Key.IsWildcard() {
				if _, ok := s.fronts[toKey(f.Key)]; ok {
					f = s.as(f)
				} else {
					missing = append(missing, f.Key)
				}
			}
			there = append(there, f)
		}
		svc.Frontends = there
		out.Services[name] = svc
	}
	return out, missing, nil
}

// as is a planned frontend as it is.
func (s *state) as(f plan.Frontend) plan.Frontend {
	out := s.frontend(toKey(f.Key))
	out.Unready, out.Outside.Terminating = f.Unready, f.Outside.Terminating
	if out.Inside != nil && f.Inside != nil {
		out.Inside.Terminating = f.Inside.Terminating
	}
	return out
}
