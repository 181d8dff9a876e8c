package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Changes is what turns one plan into another.
type Changes struct {
	Node *Node       // the new node, nil if it is the same
	Set  []*Frontend // new or changed, sorted by key
	Gone []Key       // sorted
	// The ports of health checks, sorted; one that several Services have may be there again.
	Opened, Closed []uint16
}

// Diff compares two plans; a nil plan is empty. Its cost is that of the plans
// given, so a change of a few Services is a Diff of two plans of a few Services.
func Diff(old, new *Plan) Changes {
	var c Changes
	if old == nil {
		old = &Plan{}
	}
	if new == nil {
		new = &Plan{}
	}
	if !old.Node.Equal(new.Node) {
		n := new.Node
		c.Node = &n
	}
	before, after := Index(old), Index(new)
	for k, f := range after {
		if was, ok := before[k]; !ok || !was.equal(*f) {
			c.Set = append(c.Set, f)
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			c.Gone = append(c.Gone, k)
		}
	}
	c.Opened, c.Closed = HealthPorts(new), HealthPorts(old)
	c.Opened, c.Closed = less(c.Opened, c.Closed), less(c.Closed, c.Opened)
	slices.SortFunc(c.Set, func(a, b *Frontend) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(c.Gone, Key.Compare)
	return c
}

// HealthPorts are the healthCheckNodePorts of a plan, sorted, one for each Service that has one.
func HealthPorts(p *Plan) (out []uint16) {
	for _, s := range p.Services {
		if s.HealthCheck != nil {
			out = append(out, s.HealthCheck.Port)
		}
	}
	slices.Sort(out)
	return out
}

// less is what a sorted list has more often than another.
func less(list, other []uint16) (out []uint16) {
	for _, v := range list {
		for len(other) > 0 && other[0] < v {
			other = other[1:]
		}
		if len(other) > 0 && other[0] == v {
			other = other[1:]
			continue
		}
		out = append(out, v)
	}
	return out
}

// Owner is a frontend and the Service it belongs to.
type Owner struct {
	Service  objects.Name
	Frontend *Frontend // the plan's
}

// Owners says who has each frontend. Where several Services claim one, the first by kind
// has it, then the oldest, then the first by namespace and name: a new Service takes no
// address away from one of its kind that has it, whatever its name.
func Owners(p *Plan) map[Key]Owner {
	out := make(map[Key]Owner, 2*len(p.Services))
	for name, service := range p.Services {
		for i := range service.Frontends {
			f := &service.Frontends[i]
			if had, taken := out[f.Key]; !taken || p.precedes(name, f.Kind, had) {
				out[f.Key] = Owner{name, f}
			}
		}
	}
	return out
}

// precedes tells whether a Service's claim of a kind goes before the one of an owner.
func (p *Plan) precedes(name objects.Name, kind Kind, had Owner) bool {
	return cmp.Or(cmp.Compare(kind, had.Frontend.Kind), p.compareAge(name, had.Service)) < 0
}

func (p *Plan) compareAge(a, b objects.Name) int {
	return cmp.Or(cmp.Compare(p.Services[a].Created, p.Services[b].Created), a.Compare(b))
}

// Rivalries are a line for each frontend that a Service claims and another one too, by
// Service: for who has it, and for who has not.
func Rivalries(p *Plan) map[objects.Name][]string {
	owners, claims := Owners(p), 0
	for _, s := range p.Services {
		claims += len(s.Frontends) // of which a Service has one for each key
	}
	if claims == len(owners) {
		return nil
	}
	claimed := map[Key][]objects.Name{}
	for _, name := range slices.SortedFunc(maps.Keys(p.Services), p.compareAge) {
		for _, f := range p.Services[name].Frontends {
			claimed[f.Key] = append(claimed[f.Key], name)
		}
	}
	out := map[objects.Name][]string{}
	for _, k := range slices.SortedFunc(maps.Keys(claimed), Key.Compare) {
		if len(claimed[k]) < 2 {
			continue
		}
		owner := owners[k].Service
		for _, name := range claimed[k] {
			if name != owner {
				out[owner] = append(out[owner], fmt.Sprintf("%s is claimed by %s too, and served for this Service", k, name))
				out[name] = append(out[name], fmt.Sprintf("%s is served for %s, which claims it too", k, owner))
			}
		}
	}
	return out
}

// Index is the plan's frontends by key, to be read.
func Index(p *Plan) map[Key]*Frontend {
	owners := Owners(p)
	out := make(map[Key]*Frontend, len(owners))
	for k, o := range owners {
		out[k] = o.Frontend
	}
	return out
}

func (f Frontend) equal(o Frontend) bool {
	if (f.Inside == nil) != (o.Inside == nil) {
		return false
	}
	return f.Key == o.Key && f.Kind == o.Kind && f.Group == o.Group && f.Affinity == o.Affinity &&
		f.Restricted == o.Restricted && slices.Equal(f.Sources, o.Sources) && slices.Equal(f.Draining, o.Draining) &&
		f.Outside.equal(o.Outside) && (f.Inside == nil || f.Inside.equal(*o.Inside))
}

func (r Route) equal(o Route) bool {
	return r.Action == o.Action && r.Masquerade == o.Masquerade && slices.Equal(r.Endpoints, o.Endpoints)
}
