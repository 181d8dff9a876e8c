// Package disruption is the catalogue of scenarios, a file for each or for a few that differ in
// little, and a suite of Ginkgo for those who want that.
//
//	rolling_update.go   a pod moves, and the load balancer learns of it by its checks
//	experiments.go      the same as three anecdotes
//	lb.go               the load balancer reloads, restarts, crashes
//	api_outage.go       a node does not hear that a pod has died
package disruption

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline/plumbline/suites/nearest"
	"github.com/plumbline/plumbline/suites/scenario"
)

// All are the scenarios, in the order in which they are listed.
func All() []scenario.Entry {
	return append([]scenario.Entry{rollingUpdate(), lbReload(), lbRestart(), lbCrash(), apiOutage()}, experiments()...)
}

// Names of all scenarios.
func Names() []string {
	var names []string
	for _, e := range All() {
		names = append(names, e.Name)
	}
	return names
}

// Find returns scenarios by name.
func Find(names ...string) ([]scenario.Entry, error) {
	var out []scenario.Entry
	for i, name := range names {
		n := slices.IndexFunc(All(), func(e scenario.Entry) bool { return e.Name == name })
		if n < 0 {
			hint := nearest.Hint(name, Names())
			if hint == "" {
				hint = "; known: " + strings.Join(Names(), ", ")
			}
			return nil, fmt.Errorf("unknown scenario %q%s", name, hint)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("scenario %q is named twice", name)
		}
		out = append(out, All()[n])
	}
	return out, nil
}

const (
	preRoll  = 3 * time.Second // clean before the first act
	postRoll = 2 * time.Second // after everything has settled
)

// usual are what most scenarios are run with.
func usual() scenario.Params {
	return scenario.Params{Rollouts: 3, Rate: 100, Timeout: 2500 * time.Millisecond, Delay: 12 * time.Second}
}

// usualProfile of the load balancer: as strict as one can be with it, so that losses are not hidden.
const usualProfile = "l4-strict"
