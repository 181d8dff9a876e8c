package conformance

import (
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// leavesNothing is judged when the dataplane is removed, after all others. It is
// in the catalogue with them.
var leavesNothing = kit.Behaviour{
	ID: "removed-leaves-nothing", Level: kit.Must, Profile: kit.ProfileLifecycle,
	Says:   "A dataplane that was removed, its own clean-up included, leaves no rule in any node.",
	Source: []string{"KEP-2448"}, Needs: []kit.Need{kit.NeedNodes}, Serial: true,
}

// residue is its result, from what the removal said.
func residue(removed error) conformance.Test {
	r := kit.Result{Behaviour: leavesNothing, Result: kit.ResultPass, Family: corev1.IPFamily("")}
	switch {
	case errors.Is(removed, cluster.ErrResidue):
		r.Result, r.Reason = kit.ResultFail, removed.Error()
		keepResidue(opts.stage.Dir, removed, &r)
	case opts.dataplane == "existing" || opts.stage.Cluster == "existing": // where known traces alone are looked for
		r.Result, r.Reason = kit.ResultSkip, "the cluster lacks a way into the nodes, or the dataplane is not ours to remove"
	case removed != nil:
		r.Result, r.Reason = kit.ResultInconclusive, removed.Error()
	}
	return test(r)
}

// withFunction makes it complete for the registry; it is judged by residue.
func withFunction(b kit.Behaviour) kit.Behaviour {
	b.Run = func(*kit.Spec) {}
	return b
}
