// Package disruption holds the disruption suite: one scenario per file, run on
// a cluster with every dataplane asked for.
//
// It is built into a program (`make e2e` runs it), because its exit status says
// more than pass or fail: 0 own fallback rows are within budget, 1 one of them
// lost requests, 2 the harness could not judge.
package disruption

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// options are the suite's flags, read once before it runs.
type options struct {
	rows    string
	results string
	verbose bool
	stage   stage.Options
	scenario.Scenario
}

var (
	opts   options
	status = unjudged // until a report says otherwise
)

// unjudged is the status as long as no report was made.
const unjudged = -1

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	s, err := scenario.Find("rolling-update")
	if err != nil {
		fmt.Fprintln(os.Stderr, "disruption:", err)
		return 2
	}
	opts.Scenario = s
	opts.define(flag.CommandLine)
	flag.Parse()
	if f := flag.Lookup("ginkgo.label-filter"); f.Value.String() == "" {
		if err := f.Value.Set("!interrupt && !existing"); err != nil {
			fmt.Fprintln(os.Stderr, "disruption:", err)
			return 2
		}
	}
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	if os.Getenv("PLUMBLINE_E2E") != "1" {
		fmt.Println("the disruption suite needs a host prepared for kind; `make e2e` runs it")
		return m.Run() // every spec skips by name
	}
	if err := opts.check(); err != nil {
		fmt.Fprintln(os.Stderr, "disruption:", err)
		return 2
	}
	passed := m.Run() == 0
	if err := opts.stage.Leave(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "disruption:", err)
		passed = false
	}
	switch {
	case passed && status == unjudged:
		return 0 // specs that measure nothing
	case !passed && status == 0 || status == unjudged:
		return 2 // a spec failed outside the report's judgement
	}
	return status
}

func (o *options) define(fs *flag.FlagSet) {
	fs.StringVar(&o.rows, "rows", scenario.DefaultRows, "dataplanes to run, in order")
	fs.StringVar(&o.results, "results", "results", "directory for reports and records")
	o.stage.Flags(fs)
	o.stage.MeasureFlags(fs)
	fs.BoolVar(&o.verbose, "verbose", false, "log why, not only what")
	o.Scenario.Flags(fs)
}

// check turns flags into a scenario and refuses what contradicts itself.
func (o *options) check() (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.Rows, err = scenario.ParseRows(o.rows); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if err := o.CheckHost(); err != nil {
		return err
	}
	o.stage.Rows, o.stage.Profile = o.Rows, o.Profile
	if f := flag.Lookup("ginkgo.label-filter").Value.String(); f == "interrupt" || f == "existing" {
		return nil // their runs are programs of their own
	}
	return stage.Enter(context.Background(), &o.stage, slog.Default())
}

func TestDisruption(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	if suite.Timeout == time.Hour { // Ginkgo's default; a soak takes longer
		suite.Timeout = 24 * time.Hour
	}
	ginkgo.RunSpecs(t, "disruption", suite, reporter)
}

// measure runs a scenario on a fresh cluster, prints the report's table and
// sets the suite's exit status.
func measure(ctx context.Context, s scenario.Scenario) (report.Summary, error) {
	level := slog.LevelInfo
	if opts.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	sum, dir, err := stage.Measure(ctx, s, opts.stage, opts.results, log)
	if len(sum.Rows) == 0 {
		return sum, err
	}
	status = sum.ExitCode
	fmt.Println()
	tableErr := report.Table(os.Stdout, sum)
	fmt.Printf("\nreport: %s\n", filepath.Join(dir, "report.html"))
	return sum, errors.Join(err, tableErr)
}
