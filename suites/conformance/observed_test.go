package conformance

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

var of = flag.String("reports", "", "`directories` that runs in labs have written, with commas between them: every behaviour was observed and kept")

// TestObserved: a lab has all that a behaviour asks for, and our own dataplanes keep what is
// only SHOULD as well, and declare every feature, or not to have it. A run that skips some, or fails
// what nobody promises, may still be conformant, of what it could see. What one run cannot see, of one IP
// family for instance, another one of them must have.
func TestObserved(t *testing.T) {
	if *of == "" {
		t.Skip("needs reports: -reports=DIR,DIR")
	}
	seen, skipped := map[string]bool{}, map[string]string{}
	var first conformance.Report
	for i, dir := range strings.Split(*of, ",") {
		r, err := conformance.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = r
		}
		if now, before := tested(r), tested(first); now != before {
			t.Errorf("%s is about %s, and the first about %s", dir, now, before)
		}
		here := map[string]bool{}
		for _, test := range r.Tests {
			switch test.Result {
			case conformance.Pass, conformance.Unsupported:
				here[test.ID] = true
			case conformance.Skip:
				skipped[test.ID] = test.Reason
			default:
				t.Errorf("%s: %s: %s", test.Key(), test.Result, test.Reason)
			}
		}
		for _, test := range r.Tests {
			if test.Result == conformance.Skip && here[test.ID] {
				t.Errorf("%s was not observed in this IP family: %s", test.Key(), test.Reason)
			}
		}
		maps.Copy(seen, here)
		for _, f := range r.Features {
			if f.State == conformance.FeatureUnknown {
				t.Errorf("feature %s is not declared", f.Name)
			}
		}
	}
	for _, b := range behaviours.All() {
		if !seen[b.ID] {
			t.Errorf("%s was not observed: %s", b.ID, cmp.Or(skipped[b.ID], "it was not asked"))
		}
	}
}

// tested says what a report is about, and who made it.
func tested(r conformance.Report) string {
	i := r.Implementation
	return fmt.Sprintf("%s (%s) %s, by %s", i.Project, i.Mode, i.Version, cmp.Or(r.Harness.Commit, r.Harness.Version))
}
