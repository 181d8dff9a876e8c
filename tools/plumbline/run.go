package main

import (
	"context"
	"errors"
	goflag "flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

type runOptions struct {
	scenario, rows, declaration, results string
	failOn                               []string
	stage.Options
}

func runCommand() *cobra.Command {
	var o runOptions
	// The scenario's own defaults depend on its name, so its flags are read in a
	// second pass over those that were given.
	given := scenario.Scenario{Timeouts: scenario.DefaultTimeouts()}
	fs := goflag.NewFlagSet("scenario", goflag.ContinueOnError)
	given.Flags(fs)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a scenario on a cluster made for it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := scenario.Find(o.scenario)
			if err != nil {
				return err
			}
			own := goflag.NewFlagSet("scenario", goflag.ContinueOnError)
			s.Flags(own)
			own.VisitAll(func(f *goflag.Flag) {
				if cmd.Flags().Changed(f.Name) {
					err = errors.Join(err, own.Set(f.Name, fs.Lookup(f.Name).Value.String()))
				}
			})
			if o.rows != "" && err == nil {
				s.Rows, err = row.Parse(o.rows)
			}
			if o.declaration != "" && err == nil {
				err = declare(s.Rows, o.declaration)
			}
			if err == nil {
				err = row.FailOn(s.Rows, o.failOn)
			}
			if err == nil {
				err = s.Validate()
			}
			if err == nil {
				err = s.CheckHost()
			}
			if err != nil {
				return err
			}
			o.Rows, o.Profile = s.Rows, s.Profile
			if err := stage.Enter(cmd.Context(), &o.Options, slog.Default()); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, o.Leave(context.WithoutCancel(cmd.Context()))) }()
			return measure(cmd.Context(), s, o)
		},
	}
	cmd.Flags().StringVar(&o.scenario, "scenario", "rolling-update", "rolling-update, e1, e2 or e3")
	cmd.Flags().StringVar(&o.rows, "rows", "", "dataplanes to run, in order (default: the scenario's)")
	cmd.Flags().StringVar(&o.declaration, "declaration", "", "`file` that declares what the dataplane of the row existing or manifest:FILE supports, as for conformance: one with the feature terminating-fallback is judged like ours")
	cmd.Flags().StringSliceVar(&o.failOn, "fail-on", nil, "`rows` whose losses beyond --max-lost fail the run, beside those that claim to lose nothing")
	cmd.Flags().StringVar(&o.results, "results", "results", "directory for reports and records")
	o.Options.Flags(fs)
	o.MeasureFlags(fs)
	cmd.Flags().AddGoFlagSet(fs)
	return cmd
}

// declare holds the row of others to what a file declares of their dataplane.
func declare(rows []row.Row, file string) error {
	d, err := conformance.ReadDeclaration(file)
	if err != nil {
		return err
	}
	var foreign []*row.Row
	for i := range rows {
		if rows[i].Foreign() {
			foreign = append(foreign, &rows[i])
		}
	}
	switch {
	case !slices.Contains(d.Supported, kit.TerminatingFallback):
		return fmt.Errorf("--declaration %s: it does not say that %s is supported, and nothing else is judged here", file, kit.TerminatingFallback)
	case len(foreign) != 1:
		return fmt.Errorf("--declaration %s: it is of one dataplane, for the row %s or %s:FILE, and %d of these are to be run", file, row.Existing, row.Manifest, len(foreign))
	}
	foreign[0].Declared = true
	return nil
}

// measure runs a scenario on a fresh cluster, writes and prints the report.
func measure(ctx context.Context, s scenario.Scenario, o runOptions) error {
	sum, dir, err := stage.Measure(ctx, s, o.Options, o.results, slog.Default())
	if len(sum.Rows) == 0 {
		return err
	}
	fmt.Println()
	tableErr := report.Table(os.Stdout, sum)
	fmt.Printf("\nreport: %s\n", filepath.Join(dir, "report.html"))
	err = errors.Join(err, tableErr)
	if sum.ExitCode == report.ExitLost || err == nil { // a loss that was seen outweighs what went wrong later
		return errors.Join(resultOf(sum, dir), err)
	}
	return err
}
