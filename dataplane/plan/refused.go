package plan

import (
	"fmt"
	"maps"
	"slices"
)

// Refused says which frontends the kernel did not take, and why. It is what
// Target.Apply returns when every other one is as asked: a single Service never
// holds up the others. What was there before of a refused frontend may be gone.
type Refused struct {
	Frontends map[Key]error
}

// Error names the first of them and the number of the rest.
func (r *Refused) Error() string {
	if len(r.Frontends) == 0 {
		return "no frontend refused"
	}
	first := slices.SortedFunc(maps.Keys(r.Frontends), Key.Compare)[0]
	text := fmt.Sprintf("frontend %s refused: %v", first, r.Frontends[first])
	if rest := len(r.Frontends) - 1; rest > 0 {
		text += fmt.Sprintf(" (and %d others)", rest)
	}
	return text
}

// Without is the plan without some frontends.
func (p *Plan) Without(keys map[Key]error) *Plan {
	if p == nil || len(keys) == 0 {
		return p
	}
	out := &Plan{Node: p.Node, Services: maps.Clone(p.Services)}
	for name, s := range p.Services {
		s.Frontends = slices.DeleteFunc(slices.Clone(s.Frontends), func(f Frontend) bool { return keys[f.Key] != nil })
		out.Services[name] = s
	}
	return out
}
