package conformance_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	report "github.com/plumbline/plumbline/suites/report/conformance"
)

var (
	opts  = conformance.New()
	found = map[string][]report.Test{} // by behaviour; filled before its spec runs
)

func TestMain(m *testing.M) {
	opts.Flags().CopyToGoFlagSet(flag.CommandLine)
	opts.Results = "../../results" // a test runs in its package's folder
	flag.Parse()
	os.Exit(m.Run())
}

// asked: without a cluster that is named there is nothing to ask.
func asked() (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == "cluster" })
	return is
}

// TestConformance is `plumbline conformance` as a suite of Ginkgo.
func TestConformance(t *testing.T) {
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	if asked() {
		chosen := map[string]bool{}
		opts.Behaviours = []kit.Behaviour{} // those alone
		for _, s := range ginkgo.PreviewSpecs("conformance", suite, reporter).SpecReports {
			chosen[s.LeafNodeText] = s.State.Is(types.SpecStatePassed)
		}
		for _, b := range behaviours.All() {
			if chosen[b.ID] {
				opts.Behaviours = append(opts.Behaviours, b)
			}
		}
		ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		rep, err := opts.Run(ctx)
		for _, test := range rep.Tests {
			found[test.ID] = append(found[test.ID], test)
		}
		if err != nil {
			t.Errorf("the harness could not judge: %v", err)
		}
		if rep.ExitCode != report.ExitConformant { // also for what is judged when all specs are over
			t.Errorf("%s: %s", rep.Conclusion, rep.Why)
		}
	}
	ginkgo.RunSpecs(t, "conformance", suite, reporter)
}

// Each behaviour is a spec with its labels; what became of it was found before,
// side by side with others.
var _ = ginkgo.Describe("Service", func() {
	for _, b := range behaviours.All() {
		ginkgo.It(b.ID, ginkgo.Label(conformance.Labels(b)...), func() {
			if !asked() {
				ginkgo.Skip("needs a cluster: -cluster=lab, kind or existing")
			}
			var failed error
			skipped := ""
			for _, t := range found[b.ID] {
				switch t.Result {
				case report.Fail, report.Inconclusive:
					failed = errors.Join(failed, fmt.Errorf("%s, %s: %s", t.IPFamily, t.Result, t.Reason))
				case report.Skip, report.Unsupported:
					skipped = string(t.Result) + ": " + t.Reason
				}
			}
			if failed == nil && skipped != "" {
				ginkgo.Skip(skipped)
			}
			gomega.Expect(failed).NotTo(gomega.HaveOccurred(), b.Says)
			gomega.Expect(found[b.ID]).NotTo(gomega.BeEmpty(), "it was not run")
		})
	}
})
