package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// start and end stand before the first value of a facet and after its last.
const start, end = "(nothing)", "(the end)"

// content compares how the values of each facet follow each other. Shared are the
// steps of all lives, by facet.
func content(recorded []Life, shared map[string]map[[2]string]bool, got Life) (out []string) {
	known, mine := successions(recorded...), successions(got)
	for s := range known {
		if mine[s] == nil && everywhere(recorded, s) {
			out = append(out, fmt.Sprintf("%s %s: nothing; it was always recorded", s.pod, s.facet))
		}
	}
	for s, steps := range mine {
		allowed := known[s]
		if s.readiness() {
			allowed = shared[s.facet]
		}
		for step := range steps {
			if allowed[step] {
				continue
			}
			var others []string
			for k := range allowed {
				if k[0] == step[0] {
					others = append(others, k[1])
				}
			}
			slices.Sort(others)
			out = append(out, fmt.Sprintf("%s %s: after %s came %s; recorded: %q", s.pod, s.facet, step[0], step[1], others))
		}
	}
	slices.Sort(out)
	return out
}

// subject is what takes values, one after the other.
type subject struct{ pod, facet string }

// readiness has two clocks, that of the probe and that of the look at containers:
// what is seen of it between start and end is chance.
func (s subject) readiness() bool {
	return strings.HasPrefix(s.facet, facetCondition) || s.facet == facetContainer+".ready" || s.facet == facetEndpoint
}

// successions are the pairs of values that follow each other in lives.
func successions(lives ...Life) map[subject]map[[2]string]bool {
	out := map[subject]map[[2]string]bool{}
	for _, l := range lives {
		last := map[subject]string{}
		for _, e := range l.Events {
			s := subject{e.Pod, e.Facet}
			out[s] = merged(out[s], map[[2]string]bool{{cmp.Or(last[s], start), e.Value}: true})
			last[s] = e.Value
		}
		for s, v := range last {
			out[s][[2]string{v, end}] = true
		}
	}
	return out
}

func merged[K comparable](a, b map[K]bool) map[K]bool {
	if a == nil {
		a = map[K]bool{}
	}
	maps.Copy(a, b)
	return a
}

func everywhere(recorded []Life, s subject) bool {
	for _, l := range recorded {
		if !slices.ContainsFunc(l.Events, func(e Event) bool { return e.Pod == s.pod && e.Facet == s.facet }) {
			return false
		}
	}
	return true
}
