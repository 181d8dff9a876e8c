package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/run"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/verdict"
)

// Measure runs scenarios on a cluster made for them and writes the report
// below results. It returns the report and the directory it lies in. An error
// is the harness's; what was measured before it is written all the same.
func Measure(ctx context.Context, todo scenario.Run, o Options, results string, log *slog.Logger) (sum report.Summary, dir string, err error) {
	if dir, err = o.ResultsDir(results, nameOf(todo)); err != nil {
		return sum, "", err
	}
	o.Profile, o.Rows, o.Dir = todo.Profile, todo.Rows, dir
	ctx, o.Lost = context.WithCancelCause(ctx)
	defer o.Lost(nil)
	st, err := Open(ctx, o, log)
	if err != nil {
		return sum, dir, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	if err := st.AwaitQuiet(ctx); err != nil {
		return sum, dir, err
	}
	sum, err = run.Do(ctx, todo, st, dir, log)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	sum.Environment.Plumbline, sum.Environment.Commit = version.String(), Commit()
	if o.Cluster == "lab" {
		sum.Environment.ControlPlane, sum.Environment.Lacks = o.ControlPlane, Lacks()
	}
	sum.LB = st.LB().Profile() // it has served, and tells more
	var unknown error
	sum.Environment.NodeImage, unknown = st.NodeImage(context.WithoutCancel(ctx))
	err = errors.Join(err, unknown)
	sum = report.Complete(sum)
	return sum, dir, errors.Join(err, report.Write(dir, sum), latest(results, dir))
}

// nameOf a run is its scenario's, or how many it has.
func nameOf(todo scenario.Run) string {
	if len(todo.Scenarios) == 1 {
		return todo.Scenarios[0].Name
	}
	return fmt.Sprintf("%d-scenarios", len(todo.Scenarios))
}

// AwaitQuiet looks whether timers are as punctual as a rollout that counts asks for, and gives a busy
// host what is left of Options.AwaitQuiet to become quiet, of which each look takes two seconds. If it
// does not the run goes on: rollouts are judged by what they measured.
func (b *base) AwaitQuiet(ctx context.Context) error {
	limit, begun := verdict.DefaultLimits().LateP99, time.Now()
	noise, err := host.AwaitQuiet(ctx, limit, b.opts.AwaitQuiet, func(n host.Noise) {
		b.log.Info("the host is busy; waiting for quiet", "noise", n, "atMost", b.opts.AwaitQuiet)
	})
	b.opts.AwaitQuiet -= time.Since(begun)
	if err == nil && !noise.Quiet(limit) {
		b.log.Warn("the host is busy: rollouts may be invalid; end what else runs on it", "noise", noise)
	}
	return err
}

// latest points results/latest at the newest report. Two runs that end at once leave the
// report of one of them there.
func latest(results, dir string) error {
	link := filepath.Join(results, "latest")
	temporary := link + "." + filepath.Base(dir)
	err := os.Symlink(filepath.Base(dir), temporary)
	if err == nil {
		err = os.Rename(temporary, link)
	}
	if err != nil {
		return fmt.Errorf("point at the newest report: %w", err)
	}
	return nil
}
