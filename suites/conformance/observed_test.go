package conformance

import (
	"flag"
	"testing"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

var of = flag.String("report", "", "a `directory` that a whole run in a lab has written: every behaviour was observed and kept")

// TestObserved: a lab has all that a behaviour asks for, and our own dataplanes keep what is
// only SHOULD as well, and declare every feature, or not to have it. A run that skips some, or fails
// what nobody promises, may still be conformant, of what it could see.
func TestObserved(t *testing.T) {
	if *of == "" {
		t.Skip("needs a report: -report=DIR")
	}
	r, err := conformance.Read(*of)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, test := range r.Tests {
		asked[test.ID] = true
		if test.Result != conformance.Pass && test.Result != conformance.Unsupported {
			t.Errorf("%s: %s: %s", test.Key(), test.Result, test.Reason)
		}
	}
	for _, f := range r.Features {
		if f.State == conformance.FeatureUnknown {
			t.Errorf("feature %s is not declared", f.Name)
		}
	}
	for _, b := range behaviours.All() {
		if !asked[b.ID] {
			t.Errorf("%s was not asked", b.ID)
		}
	}
}
