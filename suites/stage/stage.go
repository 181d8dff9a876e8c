// Package stage brings up what a suite runs on, and takes it down: a cluster on kind, in a
// lab or of the user's own, with images or programs, a dataplane's installer and a load
// balancer. It is the wiring shared by the suites and the CLI.
//
//	stage.go      what a stage is; Open
//	kind.go, lab.go, existing.go   the three
//	base.go       what they share: options, Enter before anything is made, steps and their undo
package stage

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/run"
)

// StateDir holds what lives only as long as a run: kubeconfigs, sockets, locks.
const StateDir = host.StateDir

// Stage is what a scenario runs on, until it is closed.
type Stage interface {
	run.Stage
	// Probe is the image of plumb-probe.
	Probe(ctx context.Context) (string, error)
	// Digests say what exactly was installed last.
	Digests(ctx context.Context) (Digests, error)
	// NodeImage is that of the nodes, name@digest; empty where they are of none, or it is
	// not known.
	NodeImage(ctx context.Context) (string, error)
	Close(context.Context) error
}

// Open brings up a stage of a kind: kind, lab or existing.
func Open(ctx context.Context, o Options, log *slog.Logger) (Stage, error) {
	switch o.Cluster {
	case "kind":
		return OpenKind(ctx, o, os.Stderr, log)
	case "lab":
		return OpenLab(ctx, o, log)
	case "existing":
		return OpenExisting(ctx, o, log)
	}
	return nil, fmt.Errorf("unknown cluster %q; known: kind, lab, existing", o.Cluster)
}
