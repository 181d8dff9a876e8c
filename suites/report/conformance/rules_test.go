package conformance

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConclusion is the rule by which a dataplane conforms.
func TestConclusion(t *testing.T) {
	n := 0
	test := func(l Level, r Result) Test {
		n++
		return Test{ID: string(rune('a' + n%26)), Profile: "Core", Level: l, Result: r, Reason: "because", Features: []string{"sctp"}}
	}
	pass := func() Test { return test(Must, Pass) }
	besideKubeProxy := func(r *Report) { r.Environment.Beside = []string{"node n1: kube-proxy: table ip kube-proxy"} }
	for _, tc := range []struct {
		name  string
		tests []Test
		edit  func(*Report)
		code  int
		why   string
	}{
		{"all passed", []Test{pass(), pass()}, nil, 0, "2 MUST passed"},
		{"a MUST failed", []Test{pass(), test(Must, Fail)}, nil, 1, "1 MUST failed"},
		{"a MUST failed as documented", []Test{pass(), {ID: "z", Result: Fail}}, func(r *Report) { r.Documented = []Documented{{"z", "why", []string{"KEP-1"}}} }, 1, "1 MUST failed"},
		{"a SHOULD failed", []Test{pass(), test(Should, Fail)}, nil, 0, "1 MUST passed"},
		{"a MAY failed", []Test{pass(), test(May, Fail)}, nil, 0, "1 MUST passed"},
		{"a level that is none failed", []Test{pass(), test("must", Fail)}, nil, 1, "1 MUST failed"},
		{"a MUST is inconclusive", []Test{pass(), test(Must, Inconclusive)}, nil, 2, "1 MUST inconclusive"},
		{"a SHOULD is inconclusive", []Test{pass(), test(Should, Inconclusive)}, nil, 0, "1 MUST passed"},
		{"a MUST was skipped", []Test{pass(), test(Must, Skip)}, nil, 0, "Core only in part: 1 MUST passed; profiles: in part Core; 1 test not observable here: 1 for want of because"},
		{"all were skipped", []Test{test(Must, Skip), test(Must, Skip)}, nil, 2, "no MUST was run"},
		{"none of Core", []Test{pass(), pass()}, func(r *Report) { r.Tests[0].Profile, r.Tests[1].Profile = "UDP", "Affinity" }, 2, "no MUST of Core was run"},
		{"a MUST that nobody declared failed", []Test{pass(), test(Must, Fail)}, func(r *Report) { r.Tests[0].Features, r.Features[0].State = nil, FeatureUnknown }, 0, "Core only in part: 1 MUST passed; profiles: in part Core; 1 MUST not binding: features undeclared: sctp"},
		{"a MUST that nobody declared passed", []Test{pass(), pass()}, func(r *Report) { r.Tests[0].Features, r.Features[0].State = nil, FeatureUnknown }, 0, "Core only in part: 1 MUST passed; profiles: in part Core; 1 MUST not binding: features undeclared: sctp"},
		{"of another profile, nobody declared it", []Test{pass(), test(Must, Pass)}, func(r *Report) {
			r.Tests[0].Features, r.Tests[1].Profile, r.Features[0].State = nil, "SCTP", FeatureUnknown
		}, 0, "1 MUST passed; profiles: Core; in part SCTP; 1 MUST not binding: features undeclared: sctp"},
		{"a MUST that is declared failed", []Test{pass(), test(Must, Fail)}, func(r *Report) { r.Tests[0].Features, r.Features[0].State = nil, FeatureSupported }, 1, "1 MUST failed: in Core"},
		{"a MUST of another profile failed", []Test{pass(), test(Must, Fail)}, func(r *Report) { r.Tests[1].Profile = "UDP" }, 1, "1 MUST failed: in UDP, Core holds"},
		{"a SHOULD was skipped", []Test{pass(), test(Should, Skip)}, nil, 0, "1 MUST passed; profiles: Core; 1 test not observable here"},
		{"a SHOULD was skipped in both families", []Test{pass(), {ID: "z", Profile: "Core", Level: Should, IPFamily: "IPv4", Result: Skip, Reason: "because"}, {ID: "z", Profile: "Core", Level: Should, IPFamily: "IPv6", Result: Skip, Reason: "because"}},
			nil, 0, "1 MUST passed; profiles: Core; 2 tests not observable here: 2 for want of because"},
		{"unsupported as declared", []Test{pass(), test(Must, Unsupported)}, nil, 0, "1 MUST passed, 1 unsupported as declared"},
		{"unsupported, declared unknown", []Test{pass(), test(Must, Unsupported)}, func(r *Report) { r.Tests[0].Features, r.Features[0].State = nil, FeatureUnknown }, 0, "Core only in part: 1 MUST passed"},
		{"unsupported, declared supported", []Test{pass(), test(Must, Unsupported)}, func(r *Report) { r.Features[0].State = FeatureSupported }, 2, "1 MUST inconclusive"},
		{"unsupported without a reason", []Test{pass(), test(Must, Unsupported)}, func(r *Report) { r.Features[0].Reason = " " }, 2, "1 MUST inconclusive"},
		{"unsupported for a feature it does not need", []Test{pass(), test(Must, Unsupported)}, func(r *Report) { r.Features[0].Name = "udp" }, 2, "1 MUST inconclusive"},
		{"a word that is no result", []Test{pass(), test(Must, "passed")}, nil, 2, "1 MUST inconclusive"},
		{"no word", []Test{pass(), test(Must, "")}, nil, 2, "1 MUST inconclusive"},
		{"a failure outweighs what is open", []Test{test(Must, Fail), test(Must, Inconclusive), test(Must, Skip)}, func(r *Report) { r.Error = "x" }, 1, "1 MUST failed"},
		{"all that is open", []Test{pass(), test(Must, Inconclusive), test(Must, Skip)}, nil, 2, "1 MUST inconclusive"},
		{"ended early", []Test{pass()}, func(r *Report) { r.Error = "interrupted" }, 2, "the run ended early: interrupted"},
		{"beside another proxy", []Test{pass()}, besideKubeProxy, 2, "what passed may be another's work: node n1: kube-proxy: table ip kube-proxy"},
		{"failed beside another proxy", []Test{test(Must, Fail)}, besideKubeProxy, 1, "1 MUST failed"},
		{"nothing", nil, nil, 2, "no MUST was run"},
		{"only unsupported", []Test{test(Must, Unsupported)}, nil, 2, "no MUST was run"},
		{"no MUST", []Test{test(Should, Pass)}, nil, 2, "no MUST was run"},
		{"one without result", []Test{pass(), pass()}, func(r *Report) { r.Chosen, r.Of = 3, 3 }, 2, "1 of 3 behaviours chosen have no result"},
		{"one test twice", []Test{pass(), pass()}, func(r *Report) { r.Tests[1].ID = r.Tests[0].ID }, 2, "two tests are called"},
		{"once in each family", []Test{pass(), pass()}, func(r *Report) { r.Tests[1].ID, r.Tests[1].IPFamily, r.Chosen, r.Of = r.Tests[0].ID, "IPv6", 1, 1 }, 0, "2 MUST passed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := all(Report{Tests: tc.tests, Features: []Feature{{Name: "sctp", State: FeatureUnsupported, Reason: "no SCTP"}}})
			if tc.edit != nil {
				tc.edit(&r)
			}
			got := Complete(r)
			if got.ExitCode != tc.code || !strings.HasPrefix(got.Why, tc.why) {
				t.Errorf("%d: %s; want %d: %s", got.ExitCode, got.Why, tc.code, tc.why)
			}
			want := []Conclusion{Conformant, NonConformant, Unjudged}[tc.code]
			if strings.HasPrefix(tc.why, "Core only in part") {
				want = PartlyJudged
			}
			if got.Conclusion != want {
				t.Errorf("conclusion %s, want %s", got.Conclusion, want)
			}
			if d := cmp.Diff(got, Complete(got)); d != "" {
				t.Errorf("not idempotent:\n%s", d)
			}
		})
	}
}

// all is a report of a catalogue that has nothing but its tests.
func all(r Report) Report {
	ids := map[string]bool{}
	for _, t := range r.Tests {
		ids[t.ID] = true
	}
	r.Chosen, r.Of = len(ids), len(ids)
	return r
}

// TestPartial: a run of a part of the catalogue is conformant in no rendering, and
// what it saw stands.
func TestPartial(t *testing.T) {
	for _, tc := range []struct {
		name       string
		chosen, of int
		result     Result
		want       Conclusion
		code       int
		why        string
	}{
		{"all", 1, 1, Pass, Conformant, 0, "1 MUST passed; profiles: Core"},
		{"a part", 1, 217, Pass, PartlyJudged, 0, "1 of 217 behaviours chosen: 1 MUST passed"},
		{"a part that failed", 1, 217, Fail, NonConformant, 1, "1 of 217 behaviours chosen: 1 MUST failed: in Core"},
		{"a part that is open", 1, 217, Inconclusive, Unjudged, 2, "1 of 217 behaviours chosen: 1 MUST inconclusive"},
		{"nobody has said", 0, 0, Pass, PartlyJudged, 0, "an unknown part of the catalogue: 1 MUST passed"},
		{"nobody has said, failed", 0, 0, Fail, NonConformant, 1, "1 MUST failed: in Core"},
	} {
		r := Complete(Report{Chosen: tc.chosen, Of: tc.of, Tests: []Test{{ID: "a", Profile: "Core", Result: tc.result, Reason: "because"}}})
		if r.Conclusion != tc.want || r.ExitCode != tc.code || r.Why != tc.why {
			t.Errorf("%s: %s, %d: %s; want %s, %d: %s", tc.name, r.Conclusion, r.ExitCode, r.Why, tc.want, tc.code, tc.why)
		}
		if got := r.Profiles[0].Result; (got == Success) != (tc.want == Conformant) {
			t.Errorf("%s: the profile is a %s", tc.name, got)
		}
		if tc.want != PartlyJudged {
			continue
		}
		page, err := html(r, nil)
		x, err2 := junit(r, nil)
		var table, compared bytes.Buffer
		_, err3 := CompareTable(&compared, r, r)
		if err := errors.Join(err, err2, err3, Table(&table, r)); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			MarkdownFile: string(markdown(r)), HTMLFile: string(page), JUnitFile: string(x), "table": table.String(), "comparison": compared.String(), "matrix": Matrix([]Report{r}),
		} {
			text, _, _ = strings.Cut(text, "How to read this")
			text, _, _ = strings.Cut(text, "## Legend")
			if !strings.Contains(text, chosen(r)) || !strings.Contains(text, "partial") || strings.Contains(text, string(Conformant)) {
				t.Errorf("%s: the %s does not say that it is partial, or says conformant:\n%s", tc.name, name, text)
			}
		}
		if !strings.Contains(string(x), "<skipped message=\"partial: ") || strings.Contains(string(x), "<error") {
			t.Errorf("%s: JUnit is green all over, or red:\n%s", tc.name, x)
		}
	}
}

// TestDoubts: what a report does not bear out is not believed, and it says so.
func TestDoubts(t *testing.T) {
	for name, tc := range map[string]struct {
		test Test
		want string
	}{
		"undeclared": {Test{Result: Unsupported, Reason: "no"}, "called unsupported, but no feature that it needs is declared so with a reason: no"},
		"skip":       {Test{Result: Skip}, "skipped without a reason"},
		"no result":  {Test{Result: "ok"}, `its result is "ok", which is no result`},
	} {
		got := Complete(Report{Tests: []Test{tc.test}}).Tests[0]
		if got.Result != Inconclusive || got.Reason != tc.want {
			t.Errorf("%s: %s, %q; want inconclusive, %q", name, got.Result, got.Reason, tc.want)
		}
	}
}

func TestProfiles(t *testing.T) {
	for _, tc := range []struct {
		name    string
		results []Result // of MUSTs
		should  []Result
		want    Summary
	}{
		{"passed", []Result{Pass, Pass}, nil, Success},
		{"one failed", []Result{Pass, Fail}, nil, Failure},
		{"a SHOULD failed", []Result{Pass}, []Result{Fail}, Success},
		{"one skipped", []Result{Pass, Skip}, nil, Partial},
		{"a SHOULD skipped", []Result{Pass}, []Result{Skip}, Success},
		{"one inconclusive", []Result{Pass, Inconclusive}, nil, Partial},
		{"one unsupported", []Result{Pass, Unsupported}, nil, Success},
		{"all unsupported", []Result{Unsupported}, nil, Partial},
		{"all skipped", []Result{Skip}, nil, Partial},
		{"failed and skipped", []Result{Fail, Skip}, nil, Failure},
		{"only a SHOULD", nil, []Result{Pass}, Partial},
		{"only a SHOULD, failed", nil, []Result{Fail}, Partial},
	} {
		var tests []Test
		for i, r := range slices.Concat(tc.results, tc.should) {
			level := Must
			if i >= len(tc.results) {
				level = Should
			}
			tests = append(tests, Test{ID: string(rune('a' + i)), Profile: "P", Level: level, Result: r, Reason: "r", Features: []string{"f"}})
		}
		got := Complete(all(Report{Tests: tests, Features: []Feature{{"f", FeatureUnsupported, "r"}}})).Profiles
		if len(got) != 1 || got[0].Result != tc.want {
			t.Errorf("%s: %+v, want %s", tc.name, got, tc.want)
		}
	}
}

// TestUndeclaredHoldsNoProfile: a MUST that binds nobody keeps its level, and no profile holds
// by what is SHOULD there, whether it passed or not.
func TestUndeclaredHoldsNoProfile(t *testing.T) {
	for _, result := range []Result{Pass, Fail} {
		r := Complete(all(Report{
			Tests: []Test{
				{ID: "a", Profile: "P", Level: Must, Result: result, Reason: "r", Features: []string{"f"}},
				{ID: "b", Profile: "P", Level: Must, Result: Pass}, {ID: "c", Profile: "P", Level: Should, Result: Pass},
			}, Features: []Feature{{Name: "f", State: FeatureUnknown}},
		}))
		if got := r.Tests[0]; got.Level != Must || got.Binds != Should || r.Tests[1].Binds != "" || r.Profiles[0].Result != Partial {
			t.Errorf("%s: level %s, binds %q and %q, the profile is a %s", result, got.Level, got.Binds, r.Tests[1].Binds, r.Profiles[0].Result)
		}
		r.Features[0].State = FeatureSupported
		want := map[Result]Summary{Pass: Success, Fail: Failure}[result]
		if r = Complete(r); r.Tests[0].Binds != "" || r.Profiles[0].Result != want {
			t.Errorf("%s, declared: binds %q, the profile is a %s", result, r.Tests[0].Binds, r.Profiles[0].Result)
		}
	}
}

// TestCompleteProfiles: counts and lists of one profile, and nobody's memory is
// written to.
func TestCompleteProfiles(t *testing.T) {
	before := sample()
	var got Profile
	for _, p := range Complete(before).Profiles {
		if p.Name == "Terminating" {
			got = p
		}
	}
	want := Profile{Name: "Terminating", Result: Failure, Statistics: Statistics{Passed: 1, Failed: 1}, Failed: []string{"terminating-fallback [IPv6]"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(sample(), before); d != "" {
		t.Errorf("Complete wrote into its argument:\n%s", d)
	}
}

// TestOrder: tests in any order make one report.
func TestOrder(t *testing.T) {
	r := sample()
	slices.Reverse(r.Tests)
	if d := cmp.Diff(Complete(sample()), Complete(r)); d != "" {
		t.Errorf("the order of the tests shows:\n%s", d)
	}
	var names []string
	for _, p := range Complete(Report{Tests: []Test{{Profile: "Zebra"}, {Profile: "Apple"}, {Profile: "UDP"}, {Profile: "Core"}}}).Profiles {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"Core", "UDP", "Apple", "Zebra"}, names); d != "" {
		t.Errorf("profiles (-want +got):\n%s", d)
	}
}
