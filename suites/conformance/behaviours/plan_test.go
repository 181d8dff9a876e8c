package behaviours

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/suites/conformance/kit"
)

// Nobody is to answer at a node port that was a Service's, and none's others may be given it
// meanwhile: what expects that runs alone.
func TestFreedNodePorts(t *testing.T) {
	met := 0
	for _, b := range All() {
		silent := func(r kit.Round) bool { return r.Freed && !r.Answers }
		if !slices.ContainsFunc(plan(t, b, corev1.IPv4Protocol, kit.Enough).Rounds, silent) {
			continue
		}
		met++
		if !b.Serial {
			t.Errorf("behaviour %s expects a node port that it gave back to be silent, and others run beside it", b.ID)
		}
	}
	if met == 0 {
		t.Error("no behaviour gives a node port back: nothing was tested")
	}
}
