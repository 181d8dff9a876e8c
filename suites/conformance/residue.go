package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// residue is the result of behaviours.RemovedLeavesNothing, from what the removal said.
func (o *Options) residue(removed error) conformance.Test {
	r := kit.Result{Behaviour: behaviours.RemovedLeavesNothing(), Result: kit.ResultPass, Family: corev1.IPFamily("")}
	switch {
	case errors.Is(removed, cluster.ErrResidue):
		r.Result, r.Reason = kit.ResultFail, removed.Error()
		keepResidue(o.Stage.Dir, removed, &r)
	case o.Dataplane == "existing" || o.Stage.Cluster == "existing": // where known traces alone are looked for
		r.Result, r.Reason = kit.ResultSkip, "the cluster lacks a way into the nodes, or the dataplane is not ours to remove"
	case removed != nil:
		r.Result, r.Reason = kit.ResultInconclusive, removed.Error()
	}
	return test(r)
}

// keepResidue keeps what a removal has left, whole, as the evidence of its result.
func keepResidue(dir string, removed error, r *kit.Result) {
	left, ok := errors.AsType[*cluster.Residue](removed)
	if !ok || dir == "" {
		return
	}
	file := filepath.Join(r.Behaviour.ID, "left.txt")
	err := os.MkdirAll(filepath.Join(dir, "evidence", r.Behaviour.ID), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "evidence", file), []byte(left.Listing()), 0o644)
	}
	if err != nil {
		r.Said = append(r.Said, fmt.Sprintf("evidence was not kept: %v", err))
		return
	}
	r.Evidence = append(r.Evidence, file)
}
