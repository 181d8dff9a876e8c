package stage

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
)

// removeDead removes what runs of a name have left on this host that live no more, and
// says which. An engine is given where they may have containers; without one, those that do
// are left.
func removeDead(ctx context.Context, stateDir, name string, engine clean.Engine, log *slog.Logger) (dead []cluster.Run, err error) {
	runs, err := host.OpenRegistry(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	for _, r := range runs.Dead {
		if r.Name() != name || engine == nil && host.UsesDocker(r.Dir) {
			continue
		}
		log.Info("removing what an earlier run left", "run", r.ID)
		failed := removeRun(ctx, r.Run, runs.Live, engine, log)
		if failed == nil {
			failed = r.End() // otherwise the next one finds it again
		}
		dead, err = append(dead, cluster.Run(r.ID)), errors.Join(err, failed)
	}
	return dead, errors.Join(err, runs.Close())
}

// removeOwn removes what a run still has on this host: processes, namespaces, containers.
func removeOwn(ctx context.Context, r *host.Run, engine clean.Engine, log *slog.Logger) error {
	live, _, err := host.LookAtRuns(stateOf(r))
	if err != nil {
		return err
	}
	return removeRun(ctx, r, live, engine, log)
}

// stateOf is the state directory of a run.
func stateOf(r *host.Run) string { return filepath.Dir(filepath.Dir(r.Dir)) }

// removeRun looks again until nothing is left: what it ends may have made something meanwhile.
func removeRun(ctx context.Context, r *host.Run, live []host.Found, engine clean.Engine, log *slog.Logger) error {
	o := clean.Options{Scope: clean.Ours(), StateDir: stateOf(r), Engine: engine}
	for _, other := range live {
		o.Live = append(o.Live, other.ID)
	}
	for {
		left, err := clean.FindRun(ctx, o, r.ID)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := clean.Remove(ctx, left, func(o clean.Object) { log.Debug("removed", "what", o.String()) }); err != nil {
			return err
		}
	}
}
