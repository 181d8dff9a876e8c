package behaviours

import (
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/conformance/promise"
)

// RemovedLeavesNothing is judged when the dataplane is removed, after all others: there
// is nothing left then to ask.
func RemovedLeavesNothing() kit.Behaviour {
	return kit.Behaviour{
		ID: "removed-leaves-nothing", Level: kit.May, Profile: kit.ProfileLifecycle,
		Says:     "A dataplane that was removed, its own clean-up included, leaves no rule in any node.",
		Promises: []promise.Promise{promise.CleanUp}, Needs: []kit.Need{kit.NeedNodes}, Serial: true,
		Run: func(*kit.Spec) {},
	}
}
