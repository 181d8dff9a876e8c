package conformance

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// What the kit knows of a failure is in the report, and each promise says where it is made.
func TestFailureIsReported(t *testing.T) {
	steps := []conformance.Step{{At: conformance.Duration(time.Second), Did: "dialled", Came: "silence", Wrong: true}}
	r := kit.Result{
		Behaviour: kit.Behaviour{ID: "x", Promises: []promise.Promise{promise.ClusterIP}}, Result: kit.ResultFail,
		Failure: kit.Failure{Sent: "4 attempts", Came: "nothing", Steps: steps, Legend: []conformance.Named{{Address: "192.0.2.1", Who: "node one"}}},
	}
	got := test(r)
	want := conformance.Test{
		ID: "x", Result: kit.ResultFail, Source: got.Source, Sent: "4 attempts", Came: "nothing", Steps: steps, Legend: r.Legend,
		Promised: []string{string(promise.ClusterIP.Kind) + ": " + promise.ClusterIP.Says() + " (" + promise.ClusterIP.Where + ")"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Every dataplane that the suite knows says how what a node has for a frontend is printed.
func TestEvidenceIsDeclared(t *testing.T) {
	all, err := declarations()
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range all {
		if err := d.check(); err != nil || len(d.Evidence) == 0 {
			t.Errorf("%s: %v, commands for evidence %q", name, err, d.Evidence)
		}
	}
}
