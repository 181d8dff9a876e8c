package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/disruption"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/render"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

type runOptions struct {
	scenarios, failOn          []string
	rows, declaration, results string
	print                      printing
	stage.Options
}

// What the help of run says.
const (
	runLong = `Run scenarios under load on a cluster made for them, or on an existing one, once for each
dataplane (a row), and write a report.

Exit status: 0 what is promised holds, 1 a row lost more than its promise and --max-lost allow,
2 bad input, or the harness could not judge.`
	runExample = `  # what the fallback to terminating endpoints saves, in network namespaces, in a minute
  sudo plumbline run --cluster=lab --profile=l4-fast --delay=6s --rollouts=1 \
      --rows=plumb-nftables,plumb-nftables:ignore+drop

  # beside upstream kube-proxy, on kind
  sudo plumbline run --rows=plumb-nftables,kube-proxy:nftables

  # your own dataplane, on kind, which may lose five requests in all
  sudo plumbline run --rows=manifest:cilium.yaml --fail-on=manifest:cilium.yaml --max-lost=5

  # the load balancer reloads; then the API is away while a pod goes
  sudo plumbline run --cluster=lab --scenario=lb-reload,api-outage --profile=l4-fast`
)

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
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run scenarios on a cluster made for them",
		Long:  runLong, Example: runExample,
		Args: cobra.NoArgs,
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
			defer context.AfterFunc(cmd.Context(), func() {
				slog.Warn("interrupted: what was made is taken down; a second time ends this at once, and the next run or plumbline clean removes the rest")
			})()
			return measure(cmd.Context(), todo, o)
		},
	}
	cmd.Flags().StringSliceVar(&o.scenarios, "scenario", o.scenarios, "`names` of scenarios, run one after another on each row: "+strings.Join(disruption.Names(), ", "))
	cmd.Flags().StringVar(&o.rows, "rows", "", "`dataplanes` to run, in order: plumb-BACKEND (:fallback, :ignore+drop, :ignore+reject), kube-proxy:MODE, existing, manifest:FILE or all; plumbline list rows has the names (default "+row.Names(entries[0].Rows)+")")
	cmd.Flags().StringVar(&o.declaration, "declaration", "", "`file` that declares what the dataplane of the row existing or manifest:FILE supports, as for conformance: one with the feature terminating-fallback is judged like ours")
	cmd.Flags().StringSliceVar(&o.failOn, "fail-on", nil, "`rows` whose losses beyond --max-lost fail the run, beside those that claim to lose nothing")
	cmd.Flags().StringVar(&o.results, "results", "results", "directory for reports and records")
	shown.Flags(cmd.Flags())
	params.Flags(cmd.Flags())
	o.Options.Flags(cmd.Flags())
	o.MeasureFlags(cmd.Flags())
	o.print.flag(cmd)
	completeStage(cmd)
	completeList(cmd, "scenario", disruption.Names()...)
	completeRows(cmd, "rows", row.Known(), true, row.All)
	completeRows(cmd, "fail-on", row.Known(), true)
	completeOne(cmd, "profile", profile.List()...)
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
	balancer := ""
	if cmd.Flags().Changed("profile") {
		balancer = cmd.Flags().Lookup("profile").Value.String()
	}
	if todo, err = scenario.Plan(rows, balancer, entries...); err != nil {
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
	todo.Command = command(cmd)
	return todo, errors.Join(todo.Validate(), todo.CheckHost())
}

// command is the line that does it again, from the flags that were given. Files of this host go by
// their last names, and its results elsewhere.
func command(cmd *cobra.Command) string {
	words := []string{"plumbline", "run"}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		switch f.Name {
		case "results", "output", "verbose", "wait":
			return
		case "kubeconfig", "declaration":
			value = filepath.Base(value)
		case "rows", "fail-on":
			value = lastNames(value)
		}
		words = append(words, render.Quoted("--"+f.Name+"="+value))
	})
	return strings.Join(words, " ")
}

// lastNames of rows are without the folders of their manifests.
func lastNames(rows string) string {
	names := strings.Split(rows, ",")
	for i, name := range names {
		if file, ok := strings.CutPrefix(name, row.Manifest+":"); ok {
			names[i] = row.Manifest + ":" + filepath.Base(file)
		}
	}
	return strings.Join(names, ",")
}

// set gives flags that were given to what defines them.
func set(cmd *cobra.Command, define func(*pflag.FlagSet)) (err error) {
	own := pflag.NewFlagSet("scenario", pflag.ContinueOnError)
	define(own)
	own.VisitAll(func(f *pflag.Flag) {
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

// printRun prints what a run came to, and where its report is.
func printRun(p printing, sum report.Summary, dir string) error {
	if p.data() {
		return p.encode(os.Stdout, report.Complete(sum))
	}
	fmt.Println() // behind the log
	if err := report.Table(os.Stdout, sum, report.Form{Wide: p.wide(), Width: width(os.Stdout)}); err != nil {
		return err
	}
	fmt.Print(whereReport(dir))
	return nil
}

// whereReport names the page, unless it could not be written: that is what the run ends with.
func whereReport(dir string) string {
	page := filepath.Join(dir, report.HTMLFile)
	if _, err := os.Stat(page); err != nil {
		return ""
	}
	return fmt.Sprintf("\nreport: %s\n", page)
}

// measure runs scenarios on a fresh cluster, writes and prints the report.
func measure(ctx context.Context, todo scenario.Run, o runOptions) error {
	sum, dir, err := stage.Measure(ctx, todo, o.Options, o.results, slog.Default())
	if len(sum.Scenarios) == 0 || len(sum.Scenarios[0].Rows) == 0 {
		return err
	}
	err = errors.Join(err, printRun(o.print, sum, dir))
	if sum.ExitCode == report.ExitLost || err == nil { // a loss that was seen outweighs what went wrong later
		return errors.Join(resultOf(sum, dir), err)
	}
	return err
}
