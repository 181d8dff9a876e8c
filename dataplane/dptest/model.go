package dptest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Model is a Target that keeps what it is told in memory: the least a backend
// can be. Not safe for concurrent use.
type Model struct {
	node      plan.Node
	frontends map[plan.Key]*plan.Frontend
}

// NewModel is one that knows nothing yet.
func NewModel() *Model { return &Model{frontends: map[plan.Key]*plan.Frontend{}} }

// NewModelOf is one that holds a plan.
func NewModelOf(p *plan.Plan) *Model { return &Model{node: p.Node, frontends: plan.Index(p)} }

// Apply takes a difference in, or with a nil old the complete plan.
func (m *Model) Apply(_ context.Context, old, new *plan.Plan) error {
	if old == nil {
		*m = *NewModelOf(new)
		return nil
	}
	c := plan.Diff(old, new)
	if c.Node != nil {
		m.node = *c.Node
	}
	for _, k := range c.Gone {
		delete(m.frontends, k)
	}
	for _, f := range c.Set {
		m.frontends[f.Key] = f
	}
	return nil
}

// String is what it holds, in full, empty without anything.
func (m *Model) String() string {
	var b strings.Builder
	if !m.node.Equal(plan.Node{}) {
		fmt.Fprintf(&b, "node %v\n", m.node)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.frontends), plan.Key.Compare) {
		f := m.frontends[k]
		inside := "none"
		if f.Inside != nil {
			inside = f.Inside.String()
		}
		fmt.Fprintf(&b, "%s %s restricted=%t %v affinity=%s of %s outside=%s inside=%s draining=%v\n",
			f.Kind, k, f.Restricted, f.Sources, f.Affinity, f.Group, f.Outside, inside, f.Draining)
	}
	return b.String()
}
