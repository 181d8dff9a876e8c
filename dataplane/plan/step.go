package plan

import (
	"maps"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Dirty are the Services whose plans are to be made anew, each with the slices that changed since its last one was
// made, as they were then; nil: other things changed too.
type Dirty map[objects.Name]map[objects.Name]objects.EndpointSlice

// Add takes in what a change may alter. What slices were is of use where there is a plan.
func (d Dirty) Add(t objects.Touched) {
	for _, name := range t.Services {
		slices, known := d[name]
		switch {
		case t.Slice == nil:
			d[name] = nil
		case !known:
			d[name] = map[objects.Name]objects.EndpointSlice{t.Slice.Name: *t.Slice}
		case slices != nil:
			if _, changed := slices[t.Slice.Name]; !changed {
				slices[t.Slice.Name] = *t.Slice
			}
		}
	}
}

// Step brings applied, the complete plan of what a snapshot was, to what it is: in the
// Services that are dirty, and in the node if that is. It returns plans of just these, before
// and after, and of the unchanged Services that claim a frontend of one of them, or of one
// that does: who has it depends on all of them. claims is what applied claims. The endpoints of a frontend that was
// there before are in the order they had (Settle).
func Step(applied *Plan, claims *Claims, snap *objects.Snapshot, opt Options, dirty Dirty, node bool) (old, new *Plan) {
	old = &Plan{Node: applied.Node, Services: make(map[objects.Name]Service, len(dirty))}
	if node {
		applied.Node = BuildNode(snap, opt)
	}
	new = &Plan{Node: applied.Node, Services: make(map[objects.Name]Service, len(dirty))}
	slots := settled{}
	for name, changed := range dirty {
		was, had := applied.Services[name]
		if had {
			old.Services[name] = was
			delete(applied.Services, name)
		}
		now, has := patch(was, snap, name, opt, changed)
		if !has {
			if now, has = BuildService(snap, name, opt); has {
				now = slots.service(was, now)
			}
		}
		if has {
			new.Services[name], applied.Services[name] = now, now
		}
		claims.Set(name, was, now)
	}
	seen := map[Key]bool{}
	for _, p := range []*Plan{old, new} {
		for name, s := range maps.Clone(p.Services) {
			addRivals(old, new, applied, claims, seen, name, s)
		}
	}
	return old, new
}

// addRivals adds the unchanged Services that claim a frontend of this one, and theirs.
func addRivals(old, new, applied *Plan, claims *Claims, seen map[Key]bool, name objects.Name, s Service) {
	for _, f := range s.Frontends {
		if seen[f.Key] {
			continue
		}
		for _, rival := range claims.Rivals(name, f.Key) {
			seen[f.Key] = true
			_, was := old.Services[rival]
			_, is := new.Services[rival]
			if !was && !is {
				other := applied.Services[rival]
				old.Services[rival], new.Services[rival] = other, other
				addRivals(old, new, applied, claims, seen, rival, other)
			}
		}
	}
}
