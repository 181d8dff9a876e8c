package disruption

// The rolling update as a suite of Ginkgo, for those who want that: what `plumbline run` does on the
// same flags, each row of its report a spec's expectation.
//
//	go test ./suites/disruption -run '^TestDisruption$' -cluster=lab -rollouts=1

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"github.com/spf13/pflag"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// options are the suite's flags, read once before it runs.
type options struct {
	rows    string
	results string
	stage   stage.Options
	todo    scenario.Run
}

var opts options

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (status int) {
	err := opts.define(flag.CommandLine)
	flag.Parse()
	if err == nil && asked() {
		err = opts.enter()
		defer func() {
			if err := opts.stage.Leave(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, "disruption:", err)
				status = 2
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "disruption:", err)
		return 2
	}
	return m.Run()
}

// asked: without a cluster that is named there is nothing to measure.
func asked() (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == "cluster" })
	return is
}

func (o *options) define(fs *flag.FlagSet) (err error) {
	if o.todo, err = scenario.Plan(nil, "", rollingUpdate()); err != nil {
		return err
	}
	fs.StringVar(&o.rows, "rows", row.Names(row.Default()), "dataplanes to run, in order")
	fs.StringVar(&o.results, "results", "../../results", "directory for reports and records")
	own := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.stage.Flags(own)
	o.stage.MeasureFlags(own)
	o.todo.Flags(own)
	o.todo.Scenarios[0].Params.Flags(own)
	own.CopyToGoFlagSet(fs)
	return nil
}

// enter turns flags into a scenario, refuses what contradicts itself, and puts this
// process where the clients of the cluster are.
func (o *options) enter() (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.todo.Rows, err = row.Parse(o.rows); err != nil {
		return err
	}
	if err := errors.Join(o.todo.Validate(), o.todo.CheckHost()); err != nil {
		return err
	}
	o.stage.Rows, o.stage.Profile = o.todo.Rows, o.todo.Profile
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

// takeDown is how long an interrupted run may take to remove its cluster.
const takeDown = 3 * time.Minute

var _ = ginkgo.Describe("rolling update", ginkgo.Label("eTP=Local", "KEP-1669"), func() {
	ginkgo.It("loses nothing with the fallback to terminating endpoints", ginkgo.GracePeriod(takeDown), func(ctx ginkgo.SpecContext) {
		if !asked() {
			ginkgo.Skip("needs a cluster: -cluster=lab, kind or existing")
		}
		sum, dir, err := stage.Measure(ctx, opts.todo, opts.stage, opts.results, slog.Default())
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "run the scenario")
		ginkgo.AddReportEntry("report", dir)
		for _, row := range sum.Scenarios[0].Rows {
			gomega.Expect(row.Word).NotTo(gomega.BeElementOf(report.Fail, report.Blind, report.Invalid), "row %s: %s", row.Name, row.Error)
		}
		gomega.Expect(sum.ExitCode).To(gomega.BeZero())
	})
})
