package lifecycle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// stampDoubt is how far a stamp of a program and that of a change of the API may
	// lie beside each other though both happened the other way round: the change is
	// stamped when a watch shows it.
	stampDoubt = 100 * time.Millisecond
	// apart is the distance at which events of different objects have an order that
	// is made (a grace period, a probe's period), and not the outcome of a race.
	apart = 500 * time.Millisecond
)

// causes are pairs of events of different objects of which the first brings about
// the second. A value is compared by its beginning.
var causes = [][2]facet{
	{{facetCondition + "Ready", "True"}, {facetEndpoint, "ready serving"}},
	{{facetCondition + "Ready", "False"}, {facetEndpoint, "none"}},
	{{facetCondition + "Ready", "False"}, {facetEndpoint, "terminating"}},
	{{facetAddress, "given"}, {facetEndpoint, ""}},
	{{facetObject, "deleting"}, {facetEndpoint, "serving terminating"}},
	{{facetObject, "deleting"}, {facetEndpoint, "terminating"}},
	{{facetObject, "deleting"}, {facetProgram, "sigterm"}},
	{{facetPhase, "Succeeded"}, {facetEndpoint, "gone"}},
	{{facetPhase, "Failed"}, {facetEndpoint, "gone"}},
	{{facetProgram, "listening"}, {facetCondition + "ContainersReady", "True"}},
	{{facetProgram, "sigterm"}, {facetCondition + "Ready", "False"}},
	{{facetProgram, "exit"}, {facetContainer, "terminated"}},
	{{facetProgram, "exit"}, {facetObject, "gone"}},
	// In a rollout the old pod goes when the new one is available.
	{{facetCondition + "Ready", "True"}, {facetObject, "deleting"}},
}

// known are differences of the lab, by how they begin, with their reason.
//
// forced: fixtures/api marks a Pod that is deleted without grace and removes it in
// one go, where a real server writes twice to its store. Watches are shown both,
// but what a controller finds in its cache is the second.
var known = []string{"life forced: pod endpoint: after ready serving came gone;"}

// Compare says how a run differs from recordings, by the rule of the package.
func Compare(recorded []Run, got Run) (differences []string) {
	byLife := map[string][]Life{}
	for _, r := range recorded {
		for _, l := range r {
			byLife[l.Name] = append(byLife[l.Name], l)
		}
	}
	races, shared := racing(byLife), map[string]map[[2]string]bool{}
	for _, lives := range byLife {
		for s, steps := range successions(lives...) {
			shared[s.facet] = merged(shared[s.facet], steps)
		}
	}
	for _, l := range got {
		if byLife[l.Name] == nil {
			differences = append(differences, fmt.Sprintf("life %s was never recorded", l.Name))
		}
	}
	for _, life := range slices.Sorted(maps.Keys(byLife)) {
		mine, ok := got.life(life)
		if !ok {
			differences = append(differences, fmt.Sprintf("life %s was not played", life))
			continue
		}
		for _, d := range append(content(byLife[life], shared, mine), order(byLife[life], races, mine)...) {
			differences = append(differences, "life "+life+": "+d)
		}
	}
	return differences
}

// pair is two events whose order is asked for.
type pair struct{ a, b name }

// ofOnePod is the pair as it is in every life, if both are of the same pod.
func (p pair) ofOnePod() (pair, bool) {
	one := p.a.pod == p.b.pod
	p.a.pod, p.b.pod = "", ""
	return p, one
}

// racing are the pairs of one pod that were recorded in different orders in one of
// the lives.
func racing(byLife map[string][]Life) map[pair]bool {
	out := map[pair]bool{}
	for _, lives := range byLife {
		p := newPlays(lives)
		for _, a := range p.names {
			for _, b := range p.names {
				general, one := pair{a, b}.ofOnePod()
				if one && p.agreed(pair{a, b}).differ {
					out[general] = true
				}
			}
		}
	}
	return out
}

// order compares the order of all pairs on which the recordings agree.
func order(recorded []Life, races map[pair]bool, got Life) (out []string) {
	p := newPlays(recorded)
	mine, names := named(got)
	for i, a := range names {
		for _, b := range names[i+1:] {
			asked := pair{a, b}
			general, one := asked.ofOnePod()
			said := p.agreed(asked)
			if said.differ || said.missing || one && races[general] {
				continue
			}
			own := one && a.source() == b.source()
			if is := relate(mine[a], mine[b]); is != unclear && said.is != unclear && is != said.is && (own || said.apart || cause(a, b) || cause(b, a)) {
				out = append(out, fmt.Sprintf("%s came %s %s; recorded: %s", a, is, b, said.is))
			}
		}
	}
	return out
}

// plays are the recordings of one life.
type plays struct {
	events []map[name]Event
	names  []name // that occur in any
}

func newPlays(lives []Life) (p plays) {
	all := map[name]bool{}
	for _, l := range lives {
		events, names := named(l)
		p.events = append(p.events, events)
		for _, n := range names {
			all[n] = true
		}
	}
	for n := range all {
		p.names = append(p.names, n)
	}
	return p
}

// agreement is what recordings say of a pair.
type agreement struct {
	is      relation
	differ  bool // they do not say the same
	missing bool // one does not have both events
	apart   bool // in all of them there is time between the two
}

func (p plays) agreed(q pair) (out agreement) {
	out.apart = true
	for _, events := range p.events {
		x, hasA := events[q.a]
		y, hasB := events[q.b]
		if !hasA || !hasB {
			out.missing = true
			continue
		}
		out.apart = out.apart && (x.At-y.At).Abs() >= apart
		r := relate(x, y)
		if r != unclear && out.is != unclear && r != out.is {
			out.differ = true
		}
		out.is = cmp.Or(out.is, r)
	}
	return out
}

func cause(a, b name) bool {
	return slices.ContainsFunc(causes, func(c [2]facet) bool { return a.is(c[0]) && b.is(c[1]) })
}
