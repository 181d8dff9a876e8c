package conformance

import (
	"flag"
	"testing"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

var of = flag.String("report", "", "a `directory` that a whole run in a lab has written, such as results/latest: every behaviour was observed")

// TestObserved: a lab has all that a behaviour asks for, so a run there that passes has looked at
// each of them. A run that skips some may still be conformant, of what it could see.
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
		if test.Result == conformance.Skip {
			t.Errorf("%s was skipped: %s", test.Key(), test.Reason)
		}
	}
	for _, b := range behaviours.All() {
		if !asked[b.ID] {
			t.Errorf("%s was not asked", b.ID)
		}
	}
}
