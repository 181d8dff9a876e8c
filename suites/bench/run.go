//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plumbline/plumbline/fixtures/api"
)

// Config is what to measure, and with what.
type Config struct {
	Lacks       string // what this run has less than another, for the tables; empty: nothing
	Rows        []Row
	Sizes       []int         // numbers of Services, ascending
	Changes     int           // endpoints replaced, each size
	Steady      time.Duration // so long, endpoints are replaced at steadyRate; 0: not
	Endpoints   []int         // of the big Services that are changed
	Flows       int           // UDP flows that are there meanwhile
	Rates       time.Duration // so long each row is sent connections as fast as they go, from each place, and as long past it; 0: not
	Switches    int
	Restarts    int           // under load; if any, one more before is without
	Connections int           // opened around all restarts of a size, at least
	Limit       time.Duration // of each step
	LeastMemory uint64        // a row that leaves the host less is ended; 0: whatever it leaves
	Beyond      bool          // also rows beyond their Bound
	PlumbProxy  string        // paths of the programs
	KubeProxy   string        // may be empty if no row needs it
	NoKubeProxy string        // why there is none, though rows need it: they are left out
	Dir         string        // results and the processes' logs go here
	Work        string        // the processes' configuration and pids; by the name of this folder, the run's id, namespaces are known
	Logger      *slog.Logger
}

// Validate checks what a user gave.
func (c Config) Validate() error {
	if len(c.Rows) == 0 || len(c.Sizes) == 0 {
		return errors.New("nothing to measure: give rows and sizes")
	}
	for i, r := range c.Rows {
		if slices.ContainsFunc(c.Rows[:i], func(o Row) bool { return o.Name() == r.Name() }) {
			return fmt.Errorf("row %s twice: give each once", r.Name())
		}
	}
	for i, n := range c.Sizes {
		if n < 2 || n > 100_000 {
			return fmt.Errorf("size %d: give 2 to 100000 Services", n)
		}
		if i > 0 && n <= c.Sizes[i-1] {
			return fmt.Errorf("size %d after %d: give sizes in ascending order", n, c.Sizes[i-1])
		}
	}
	for _, n := range c.Endpoints {
		if n < 0 || n > 50_000 {
			return fmt.Errorf("endpoints %d: give 1 to 50000 of one Service, or 0 to leave it out", n)
		}
	}
	if c.Flows > mostFlows {
		return fmt.Errorf("flows %d: give at most %d", c.Flows, mostFlows)
	}
	for what, n := range map[string]int{"changes": c.Changes, "steady": int(c.Steady), "flows": c.Flows, "switches": c.Switches, "restarts": c.Restarts, "connections": c.Connections} {
		if n < 0 {
			return fmt.Errorf("%s %d: must not be negative", what, n)
		}
	}
	if c.Rates != 0 && c.Rates < turn {
		return fmt.Errorf("rates %v: give at least %v, or 0s to leave them out", c.Rates, turn)
	}
	if c.Limit < time.Second {
		return fmt.Errorf("limit %v: give at least one second", c.Limit)
	}
	return nil
}

// Run measures every row at every size and writes bench.md, bench.json and bench.txt as
// it goes: what is done is not lost if it is interrupted.
func Run(ctx context.Context, cfg Config) ([]Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	var err error
	if cfg.Rows, err = flavoured(ctx, cfg.Rows); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the results folder: %w", err)
	}
	w, err := newWorld(ctx, cfg.Work, api.New(api.Config{Logger: cfg.Logger}), cfg.Logger)
	if err != nil {
		return nil, err
	}
	results, err := w.run(ctx, cfg)
	return results, errors.Join(err, w.Close())
}

func (w *world) run(ctx context.Context, cfg Config) ([]Result, error) {
	var out []Result
	for _, n := range cfg.Sizes {
		if err := w.grow(n); err != nil {
			return out, err
		}
		begin := len(out)
		for _, row := range cfg.Rows {
			if why := cfg.leftOut(row, n); why != "" {
				out = append(out, Result{Row: row.Name(), Services: n, Ended: why})
				continue
			}
			r, err := w.measure(ctx, cfg, row, n)
			if err != nil {
				return out, fmt.Errorf("measure %s at %d Services: %w", row.Name(), n, err)
			}
			out = append(out, r)
			if err := write(cfg.Dir, out, cfg.Lacks); err != nil {
				return out, err
			}
		}
		err := beside(ctx, cfg, w.api, out[begin:])
		if err := errors.Join(err, write(cfg.Dir, out, cfg.Lacks)); err != nil {
			return out, fmt.Errorf("measure rows side by side at %d Services: %w", n, err)
		}
	}
	return out, nil
}

func write(dir string, results []Result, lacks string) error {
	data, err := dataJSON(results, lacks)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"bench.md": Markdown(results, lacks), "bench.json": data, "bench.txt": Benchstat(results)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}
