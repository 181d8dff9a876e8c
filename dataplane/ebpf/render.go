package ebpf

import (
	"maps"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Render is all that the maps hold of a plan as sorted text, in the form of Dump.
func Render(p *plan.Plan) string {
	index := plan.Index(p)
	l := listing{link: p.Node.LocalLink, networks: networks(p.Node), classes: classes(p.Node, maps.Keys(index)), fronts: map[plan.Key]*plan.Frontend{}}
	for k, f := range index {
		if served(k) {
			l.fronts[k] = f
		}
	}
	return l.String()
}
