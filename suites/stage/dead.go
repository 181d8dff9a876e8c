package stage

import (
	"context"
	"errors"
	"log/slog"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// removeDead removes what runs of a name have left on this host that live no more, and
// says which.
func removeDead(ctx context.Context, stateDir, name string, log *slog.Logger) (dead []cluster.Run, err error) {
	runs, err := host.OpenRegistry(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	for _, r := range runs.Dead {
		if r.Name() == name {
			log.Info("removing what an earlier run left", "run", r.ID)
			failed := removeRun(ctx, r.Run, log)
			if failed == nil {
				failed = r.End() // otherwise the next one finds it again
			}
			dead, err = append(dead, cluster.Run(r.ID)), errors.Join(err, failed)
		}
	}
	return dead, errors.Join(err, runs.Close())
}

// removeRun removes what a run has on this host: processes, namespaces.
func removeRun(ctx context.Context, r *host.Run, log *slog.Logger) error {
	left, err := clean.FindLab(clean.Ours(), netns.Prefix+r.ID+"-", r.Dir)
	if err != nil {
		return err
	}
	return clean.Remove(ctx, left, func(o clean.Object) { log.Debug("removed", "what", o.String()) })
}
