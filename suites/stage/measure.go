package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
)

// Stage is what a scenario runs on, until it is closed.
type Stage interface {
	scenario.Stage
	// Probe is the image of plumb-probe.
	Probe(ctx context.Context) (string, error)
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

// Measure runs a scenario on a cluster made for it and writes the report
// below results. It returns the report and the directory it lies in. An error
// is the harness's; what was measured before it is written all the same.
func Measure(ctx context.Context, s scenario.Scenario, o Options, results string, log *slog.Logger) (sum report.Summary, dir string, err error) {
	dir, err = filepath.Abs(filepath.Join(results, time.Now().UTC().Format("20060102-150405")+"-"+s.Name))
	if err != nil {
		return sum, "", fmt.Errorf("find the results directory: %w", err)
	}
	o.Profile, o.Rows, o.Dir = s.Profile, s.Rows, dir
	st, err := Open(ctx, o, log)
	if err != nil {
		return sum, dir, err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	sum, err = scenario.Run(ctx, s, st, dir, log)
	sum.Environment.Plumbline = Version()
	sum = report.Complete(sum)
	return sum, dir, errors.Join(err, report.Write(dir, sum), latest(results, dir))
}

// latest points results/latest at the newest report.
func latest(results, dir string) error {
	link := filepath.Join(results, "latest")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("point at the newest report: %w", err)
	}
	if err := os.Symlink(filepath.Base(dir), link); err != nil {
		return fmt.Errorf("point at the newest report: %w", err)
	}
	return nil
}
