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
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

type runOptions struct {
	scenarios, failOn          []string
	rows, declaration, results string
	stage.Options
}

func runCommand() *cobra.Command {
	o := runOptions{scenarios: []string{"rolling-update"}}
	// Scenarios have defaults of their own, so that flags are read in a second pass, of those that
	// were given.
	var shown scenario.Run
	var params scenario.Params
	entries, err := disruption.Find(o.scenarios...)
	if err == nil {
		shown, err = scenario.Plan(nil, "", entries...)
	}
	if err != nil {
		panic(err) // the default is in the catalogue
	}
	params = shown.Scenarios[0].Params
	fs := goflag.NewFlagSet("scenario", goflag.ContinueOnError)
	shown.Flags(fs)
	params.Flags(fs)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run scenarios on a cluster made for them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			todo, err := o.plan(cmd)
			if err != nil {
				return err
			}
			o.Rows, o.Profile = todo.Rows, todo.Profile
			if err := stage.Enter(cmd.Context(), &o.Options, slog.Default()); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, o.Leave(context.WithoutCancel(cmd.Context()))) }()
			return measure(cmd.Context(), todo, o)
		},
	}
	cmd.Flags().StringSliceVar(&o.scenarios, "scenario", o.scenarios, "`names` of scenarios, run one after another on each row ("+strings.Join(disruption.Names(), ", ")+")")
	cmd.Flags().StringVar(&o.rows, "rows", "", "dataplanes to run, in order (default: the scenario's)")
	cmd.Flags().StringVar(&o.declaration, "declaration", "", "`file` that declares what the dataplane of the row existing or manifest:FILE supports, as for conformance: one with the feature terminating-fallback is judged like ours")
	cmd.Flags().StringSliceVar(&o.failOn, "fail-on", nil, "`rows` whose losses beyond --max-lost fail the run, beside those that claim to lose nothing")
	cmd.Flags().StringVar(&o.results, "results", "results", "directory for reports and records")
	o.Options.Flags(fs)
	o.MeasureFlags(fs)
	cmd.Flags().AddGoFlagSet(fs)
	return cmd
}

// plan is what flags ask for, if it can be run at all.
func (o *runOptions) plan(cmd *cobra.Command) (todo scenario.Run, err error) {
	entries, err := disruption.Find(o.scenarios...)
	if err != nil {
		return todo, err
	}
	var rows []row.Row
	if o.rows != "" {
		if rows, err = row.Parse(o.rows); err != nil {
			return todo, err
		}
	}
	profile := ""
	if cmd.Flags().Changed("profile") {
		profile = cmd.Flags().Lookup("profile").Value.String()
	}
	if todo, err = scenario.Plan(rows, profile, entries...); err != nil {
		return todo, err
	}
	if err = set(cmd, todo.Flags); err != nil {
		return todo, err
	}
	for i := range todo.Scenarios {
		if err = set(cmd, todo.Scenarios[i].Params.Flags); err != nil {
			return todo, err
		}
	}
	if o.declaration != "" {
		if err = declare(todo.Rows, o.declaration); err != nil {
			return todo, err
		}
	}
	if err = row.FailOn(todo.Rows, o.failOn); err != nil {
		return todo, err
	}
	return todo, errors.Join(todo.Validate(), todo.CheckHost())
}

// set gives flags that were given to what defines them.
func set(cmd *cobra.Command, define func(*goflag.FlagSet)) (err error) {
	own := goflag.NewFlagSet("scenario", goflag.ContinueOnError)
	define(own)
	own.VisitAll(func(f *goflag.Flag) {
		if cmd.Flags().Changed(f.Name) {
			err = errors.Join(err, own.Set(f.Name, cmd.Flags().Lookup(f.Name).Value.String()))
		}
	})
	return err
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

// measure runs scenarios on a fresh cluster, writes and prints the report.
func measure(ctx context.Context, todo scenario.Run, o runOptions) error {
	sum, dir, err := stage.Measure(ctx, todo, o.Options, o.results, slog.Default())
	if len(sum.Scenarios) == 0 || len(sum.Scenarios[0].Rows) == 0 {
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
