package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/suites/report/render"
)

// Conclusion is the exit code in a word.
type Conclusion string

const (
	Conformant    Conclusion = "conformant"
	PartlyJudged  Conclusion = "partial" // nothing is wrong with the behaviours that were chosen
	NonConformant Conclusion = "non-conformant"
	Unjudged      Conclusion = "not judged"
)

// Exit codes of a run.
const (
	ExitConformant    = 0
	ExitNonConformant = 1
	ExitUnjudged      = 2
)

// Complete fills in what follows from the rest, and takes nothing on trust that
// the report itself contradicts. It is idempotent. The rules:
//
//   - A result must be one of the five words and a level one of the three; a test
//     that has another is inconclusive, or a MUST.
//   - A MUST that needs a feature of which nobody has declared whether the dataplane has
//     it binds nobody: it counts as a SHOULD. The level of the catalogue stays beside that,
//     and the conclusion says how many there are and which features nobody has declared.
//   - Unsupported needs a declaration: a feature that the test needs, declared
//     unsupported, with a reason. Without it the test is inconclusive, for nobody
//     has said why it was not run. A skip without a reason is too.
//   - Exit 1: a MUST failed. What was seen outweighs everything that was not.
//   - Exit 2 otherwise: a MUST is inconclusive, none of Core passed, or none at all, a
//     chosen behaviour has no test, two tests have one key, or the run ended early.
//   - Exit 0 otherwise: every MUST passed, is unsupported as declared, or could not be
//     observed: it was skipped, for the cluster lacks what it needs or is older than it.
//     How many, and why, is said; a skip is never a pass. That is conformant if the whole
//     catalogue was chosen and Core is a success, and partial if not, or the report does not
//     say.
//   - SHOULD and MAY are reported and never change the code.
//   - A failure that is documented, with why and a source, says so, and stays one.
//   - A profile is a failure if a MUST of it failed; a success if none did, at
//     least one passed, every one that the catalogue calls so passed or is unsupported as
//     declared, and binds, and the whole catalogue was chosen; partial otherwise. The conclusion
//     names those that are a success, and those that could be observed in part.
//   - Tests are in the order of profile, id and IP family: runs in random order
//     give one report.
func Complete(r Report) Report {
	r.APIVersion, r.Kind = APIVersion, Kind
	r.Tests = slices.Clone(r.Tests)
	for i := range r.Tests {
		r.Tests[i] = withKnown(normal(r.Tests[i], r.Features), r.Documented)
	}
	slices.SortStableFunc(r.Tests, byPlace)
	r.Profiles = profiles(r.Tests, whole(r))
	r.Conclusion, r.ExitCode, r.Why = conclude(r)
	return r
}

// profileOrder is the order of semantics: what a Service is first, what most
// clusters lack last. Profiles unknown here follow by name.
var profileOrder = []string{ // const
	core, "TrafficPolicy", "Terminating", "Affinity", "Health", "UDP", "SCTP", "DualStack", "ServiceCIDR", "ExternalIPs", "Topology",
	"LoadBalancer-VIP", "SourceRanges", "LoadBalancer-Proxy", "Lifecycle", "Disruption",
}

func compareProfiles(a, b string) int {
	rank := func(name string) int {
		if i := slices.Index(profileOrder, name); i >= 0 {
			return i
		}
		return len(profileOrder)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func byPlace(a, b Test) int {
	return cmp.Or(compareProfiles(a.Profile, b.Profile), cmp.Compare(a.ID, b.ID), cmp.Compare(a.IPFamily, b.IPFamily))
}

// normal is the test as far as its report bears it out.
func normal(t Test, features []Feature) Test {
	if t.Level != Should && t.Level != May {
		t.Level = Must
	}
	t.Binds = ""
	if t.Level == Must && len(undeclared(t, features)) > 0 {
		t.Binds = Should
	}
	doubt := ""
	switch t.Result {
	case Pass, Inconclusive, Fail:
	case Skip:
		if t.Reason == "" {
			doubt = "skipped without a reason"
		}
	case Unsupported:
		if !declared(t, features) {
			doubt = "called unsupported, but no feature that it needs is declared so with a reason"
		}
	default:
		doubt = fmt.Sprintf("its result is %q, which is no result", t.Result)
	}
	if doubt != "" {
		t.Result = Inconclusive
		if t.Reason != "" {
			doubt += ": " + t.Reason
		}
		t.Reason = doubt
	}
	return t
}

func declared(t Test, features []Feature) bool {
	return slices.ContainsFunc(features, func(f Feature) bool {
		return f.State == FeatureUnsupported && strings.TrimSpace(f.Reason) != "" && slices.Contains(t.Features, f.Name)
	})
}

// undeclared are the features that a test needs and of which the report says that nobody has
// declared them.
func undeclared(t Test, features []Feature) (names []string) {
	for _, f := range features {
		if f.State == FeatureUnknown && slices.Contains(t.Features, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// whole says whether the run was to judge everything that the catalogue promises.
func whole(r Report) bool { return r.Of > 0 && r.Chosen == r.Of }

// chosen says how much of the catalogue the run was about.
func chosen(r Report) string {
	if r.Of == 0 {
		return "an unknown part of the catalogue"
	}
	return fmt.Sprintf("%d of %s chosen", r.Chosen, render.Plural(r.Of, "behaviour"))
}

func conclude(r Report) (Conclusion, int, string) {
	c, code, why := concludeChosen(r)
	why = render.Joined("; ", why, notBinding(r))
	switch {
	case whole(r):
	case c == Conformant:
		c, why = PartlyJudged, chosen(r)+": "+why
	case r.Of > 0:
		why = chosen(r) + ": " + why
	}
	return c, code, why
}

// concludeChosen is about the behaviours that were chosen, as if there were no others.
func concludeChosen(r Report) (Conclusion, int, string) {
	n := count(r.Tests, func(t Test) bool { return t.binding() == Must })
	seen, ids := map[string]bool{}, map[string]bool{}
	twice := ""
	for _, t := range r.Tests {
		ids[t.ID] = true
		if seen[t.Key()] {
			twice = t.Key()
		}
		seen[t.Key()] = true
	}
	switch {
	case n.Failed > 0:
		return NonConformant, ExitNonConformant, fmt.Sprintf("%d MUST failed", n.Failed) + render.Prefixed(": ", strings.Join(failedIn(r), ", "))
	case r.Error != "":
		return Unjudged, ExitUnjudged, "the run ended early: " + r.Error
	case len(r.Environment.Beside) > 0:
		return Unjudged, ExitUnjudged, "what passed may be another's work: " + strings.Join(r.Environment.Beside, "; ")
	case twice != "":
		return Unjudged, ExitUnjudged, "two tests are called " + twice
	case n.Inconclusive > 0:
		return Unjudged, ExitUnjudged, fmt.Sprintf("%d MUST inconclusive", n.Inconclusive)
	case n.Passed == 0:
		return Unjudged, ExitUnjudged, "no MUST was run"
	case whole(r) && count(r.Tests, func(t Test) bool { return t.binding() == Must && t.Profile == core }).Passed == 0:
		return Unjudged, ExitUnjudged, "no MUST of " + core + " was run"
	case len(ids) < r.Chosen:
		return Unjudged, ExitUnjudged, fmt.Sprintf("%d of %s chosen have no result", r.Chosen-len(ids), render.Plural(r.Chosen, "behaviour"))
	}
	why := fmt.Sprintf("%d MUST passed", n.Passed)
	if n.Unsupported > 0 {
		why += fmt.Sprintf(", %d unsupported as declared", n.Unsupported)
	}
	why = render.Joined("; ", why, render.Prefixed("profiles: ", held(r)), unobserved(r.Tests))
	if whole(r) && !stands(r, core) {
		return PartlyJudged, ExitConformant, core + " only in part: " + why
	}
	return Conformant, ExitConformant, why
}

func count(tests []Test, of func(Test) bool) (s Statistics) {
	for _, t := range tests {
		if !of(t) {
			continue
		}
		switch t.Result {
		case Pass:
			s.Passed++
		case Fail:
			s.Failed++
		case Skip:
			s.Skipped++
		case Unsupported:
			s.Unsupported++
		case Inconclusive:
			s.Inconclusive++
		}
	}
	return s
}

// profiles sums up tests that are in order, of a run of the whole catalogue or not.
func profiles(tests []Test, whole bool) []Profile {
	var out []Profile
	for len(tests) > 0 {
		name := tests[0].Profile
		n := slices.IndexFunc(tests, func(t Test) bool { return t.Profile != name })
		if n < 0 {
			n = len(tests)
		}
		out = append(out, profile(name, tests[:n], whole))
		tests = tests[n:]
	}
	return out
}

func profile(name string, tests []Test, whole bool) Profile {
	p := Profile{Name: name, Result: Partial, Statistics: count(tests, func(Test) bool { return true })}
	for _, t := range tests {
		switch t.Result {
		case Fail:
			p.Failed = append(p.Failed, t.Key())
		case Skip:
			p.Skipped = append(p.Skipped, t.Key())
		}
	}
	must := count(tests, func(t Test) bool { return t.binding() == Must })
	switch {
	case must.Failed > 0:
		p.Result = Failure
	case whole && must.Passed > 0 && must.Skipped+must.Inconclusive == 0 && !slices.ContainsFunc(tests, lowered):
		p.Result = Success
	}
	return p
}
