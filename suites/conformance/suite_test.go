// Package conformance says, for any dataplane on any cluster, which Service
// semantics hold: one behaviour per file.
//
//	make conformance DATAPLANE=plumb-nftables CLUSTER=kind
//
// It is built into a program, because its exit status says more than pass or
// fail: 0 every MUST holds, 1 one does not, 2 the harness could not judge.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// options are the suite's flags.
type options struct {
	dataplane   string
	declaration string
	results     string
	sonobuoy    bool
	parallel    int
	verbose     bool
	stage       stage.Options
	said        runLog
}

var (
	opts     = options{stage: stage.Options{Profile: "l4-fast", Workers: 4}}
	registry kit.Registry
	results  = map[string][]kit.Result{} // by behaviour; filled before its spec runs
	status   = 2                         // until a report says otherwise
	ended    error                       // why the harness could not judge
	phases   timeline
)

// behaviour adds one behaviour to the suite. Each file has one.
func behaviour(b kit.Behaviour, run func(*kit.Spec)) bool {
	b.Run = run
	registry.Add(b)
	return true
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	opts.define(flag.CommandLine)
	flag.CommandLine.Init(os.Args[0], flag.ContinueOnError) // Sonobuoy is told of a wrong flag too
	flag.CommandLine.SetOutput(io.Discard)                  // a wrong flag is one line, below
	err := flag.CommandLine.Parse(os.Args[1:])
	flag.CommandLine.SetOutput(nil)
	switch {
	case errors.Is(err, flag.ErrHelp) && !opts.sonobuoy:
		flag.CommandLine.Usage()
		return 0
	case err == nil && (os.Getenv("PLUMBLINE_CONFORMANCE") != "1" || flag.Lookup("test.list").Value.String() != ""):
		return m.Run() // the specs skip by name; the catalogue is checked
	case err == nil:
		err = opts.check()
	}
	if err != nil {
		opts.complain(err)
		ended = err
	} else {
		m.Run()
		if err := opts.stage.Leave(context.Background()); err != nil {
			opts.complain(err)
		}
	}
	if ended != nil && opts.stage.Dir != "" {
		if status, err = opts.amend(ended); err != nil {
			opts.complain(err)
		}
	}
	if opts.sonobuoy {
		if err := opts.deliver(ended); err != nil {
			opts.complain(err)
			return 2
		}
	}
	return status
}

func (o *options) define(fs *flag.FlagSet) {
	fs.StringVar(&o.dataplane, "dataplane", "plumb-nftables", "what is tested: plumb-nftables, plumb-iptables, plumb-userspace, kube-proxy:nftables, kube-proxy:iptables, existing or manifest:FILE")
	fs.StringVar(&o.declaration, "declaration", "", "`file` that declares what the dataplane supports: one entry of suites/conformance/dataplanes.yaml (default: the entry there)")
	fs.StringVar(&o.results, "results", "results", "directory for reports and evidence")
	fs.BoolVar(&o.sonobuoy, "sonobuoy", false, "pack the report into --results when done, and tell Sonobuoy's worker, which waits there")
	fs.IntVar(&o.parallel, "side-by-side", 8, "behaviours that run at once, of those that disturb nobody")
	fs.BoolVar(&o.verbose, "verbose", false, "log why, not only what")
	o.stage.Flags(fs)
	// Both families, or the behaviours of dual stack are left out. In front of an
	// existing cluster ours would be on this host's loopback, which no pod reaches.
	o.stage.IPFamily, o.stage.Foreign.LB = "dual", string(scenario.NoLB)
	fs.Lookup("ip-family").DefValue, fs.Lookup("lb").DefValue = o.stage.IPFamily, o.stage.Foreign.LB
}

func (o *options) check() (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.parallel < 1 || o.parallel > 64 {
		return fmt.Errorf("--side-by-side %d: must be 1 to 64", o.parallel)
	}
	if o.stage.Rows, err = dataplaneRow(o.dataplane); err != nil {
		return err
	}
	if _, err = declaration(o.dataplane, o.declaration); err != nil {
		return err
	}
	return stage.Enter(context.Background(), &o.stage, o.logger())
}

// place makes a directory of this run's own below the results, where its log goes from
// now on.
func (o *options) place(kind string) (err error) {
	if o.stage.Dir, err = o.stage.ResultsDir(o.results, kind); err != nil {
		return err
	}
	return o.said.open(o.stage.Dir)
}

// runLog is the log of the run beside its report. What it is given before there is
// such a place it keeps until then.
type runLog struct {
	mu     sync.Mutex // guards the rest
	before bytes.Buffer
	file   *os.File
}

func (l *runLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.before.Write(b)
	}
	return l.file.Write(b)
}

// open makes the directory and the log in it, which stays open as long as the program
// runs.
func (l *runLog) open(dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		l.file, err = os.Create(filepath.Join(dir, conformance.LogFile))
	}
	if err == nil {
		_, err = l.before.WriteTo(l.file)
	}
	if err != nil {
		return fmt.Errorf("write the log of the run: %w", err)
	}
	return nil
}

// complain says why the harness could not judge.
func (o *options) complain(err error) {
	fmt.Fprintln(io.MultiWriter(os.Stderr, &o.said), "conformance:", err)
}

func (o *options) logger() *slog.Logger {
	level := slog.LevelInfo
	if o.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(io.MultiWriter(os.Stderr, &o.said), &slog.HandlerOptions{Level: level}))
}

// suiteLimit bounds a run of all behaviours, which takes minutes, and what comes
// before it; taking away what was brought up has limits of its own.
const suiteLimit = 40 * time.Minute

func TestConformance(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	chosen := map[string]bool{}
	if os.Getenv("PLUMBLINE_CONFORMANCE") == "1" {
		for _, s := range ginkgo.PreviewSpecs("conformance", suite, reporter).SpecReports {
			if s.State.Is(types.SpecStatePassed) {
				chosen[s.LeafNodeText] = true
			}
		}
		ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := judge(ctx, chosen, suite.RandomSeed); err != nil {
			opts.complain(err)
			status, ended = 2, err
			t.FailNow()
		}
	}
	ginkgo.RunSpecs(t, "conformance", suite, reporter)
}

// Each behaviour is a spec with its labels; what became of it was found before,
// side by side with others.
var _ = ginkgo.Describe("Service", func() {
	for _, b := range registry.All() {
		labels := ginkgo.Label(string(b.Level), string(b.Profile))
		ginkgo.It(b.ID, labels, func() {
			if os.Getenv("PLUMBLINE_CONFORMANCE") != "1" {
				ginkgo.Skip("needs a cluster (make conformance)")
			}
			var failed error
			skipped := ""
			for _, r := range results[b.ID] {
				switch r.Result {
				case kit.ResultFail, kit.ResultInconclusive:
					failed = errors.Join(failed, fmt.Errorf("%s, %s: %s", r.Family, r.Result, r.Reason))
				case kit.ResultSkip, kit.ResultUnsupported:
					skipped = r.Result + ": " + r.Reason
				}
			}
			if failed == nil && skipped != "" {
				ginkgo.Skip(skipped)
			}
			gomega.Expect(failed).NotTo(gomega.HaveOccurred(), b.Says)
			gomega.Expect(results[b.ID]).NotTo(gomega.BeEmpty(), "it was not run")
		})
	}
})
