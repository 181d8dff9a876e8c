package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// core is the profile of what every client relies on. The others extend it.
const core = "Core"

// failedIn names the profiles in which a MUST failed, and says whether Core holds.
func failedIn(r Report) (out []string) {
	for _, p := range profiles(r.Tests, whole(r)) {
		if p.Result == Failure {
			out = append(out, "in "+p.Name)
		}
	}
	if stands(r, core) {
		out = append(out, core+" holds")
	}
	return out
}

// stands says whether a profile is a success. Of a run of some behaviours none is.
func stands(r Report, name string) bool {
	return slices.ContainsFunc(profiles(r.Tests, whole(r)), func(p Profile) bool { return p.Name == name && p.Result == Success })
}

// lowered says whether a MUST of the catalogue binds nobody here.
func lowered(t Test) bool { return t.Level == Must && t.binding() != Must }

// notBinding says how many behaviours are a MUST that binds nobody here, and for want of which
// declarations.
func notBinding(r Report) string {
	ids, features := map[string]bool{}, map[string]bool{}
	for _, t := range r.Tests {
		if !lowered(t) {
			continue
		}
		ids[t.ID] = true
		for _, name := range undeclared(t, r.Features) {
			features[render.Line(name)] = true
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("%d MUST not binding: features undeclared: %s", len(ids), strings.Join(slices.Sorted(maps.Keys(features)), ", "))
}

// held names the profiles that a run of the whole catalogue has found to hold: wholly, and
// in part, where something of them could not be observed.
func held(r Report) string {
	var wholly, partly []string
	for _, p := range profiles(r.Tests, true) {
		switch {
		case !whole(r):
		case p.Result == Success:
			wholly = append(wholly, p.Name)
		case p.Statistics.Passed > 0:
			partly = append(partly, p.Name)
		}
	}
	return render.Joined("; ", strings.Join(wholly, ", "), render.Prefixed("in part ", strings.Join(partly, ", ")))
}

// unobserved says how many tests were skipped, whatever their level, a behaviour once in each IP
// family, and for which reasons, those of most first.
func unobserved(tests []Test) string {
	keys, by := map[string]bool{}, map[string]map[string]bool{}
	for _, t := range tests {
		if t.Result != Skip {
			continue
		}
		keys[t.Key()] = true
		why := strings.TrimPrefix(render.Line(t.Reason), "the cluster lacks ")
		if by[why] == nil {
			by[why] = map[string]bool{}
		}
		by[why][t.Key()] = true
	}
	if len(keys) == 0 {
		return ""
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), strings.Compare(a, b)) })
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("%d for want of %s", len(by[why]), why)
		if strings.HasPrefix(why, "not applicable") {
			reasons[i] = fmt.Sprintf("%d %s", len(by[why]), why)
		}
	}
	return fmt.Sprintf("%s not observable here: %s", render.Plural(len(keys), "test"), strings.Join(reasons, "; "))
}
