package selftest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"gonum.org/v1/gonum/stat"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/verdict"
	"github.com/plumbline/plumbline/suites/verdict/model"
)

// What a run expects beforehand is held against what it measures, over settings that are drawn:
// 53 of 60 rollouts at least within the printed band of 95 %, and what was reconstructed
// unbiased.
var _ = ginkgo.Describe("predictions", func() {
	ginkgo.It("hold for settings that are drawn", func(ctx ginkgo.SpecContext) {
		only("lab")
		gomega.Expect(os.MkdirAll(opts.results, 0o755)).To(gomega.Succeed())
		results, err := os.MkdirTemp(opts.results, "predictions-")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		rng := rand.New(rand.NewPCG(uint64(ginkgo.GinkgoRandomSeed()), 1))
		var said []string
		within, wide, residuals := 0, 0, []float64{}
		for n := range rollouts {
			s := drawn(rng)
			r, p := predicted(ctx, filepath.Join(results, fmt.Sprint(n)), s)
			lost := float64(r.Lost)
			if p.Band95.Contains(lost) {
				within++
			}
			if p.Band95.Width() > 2*1.96*math.Sqrt(p.Var)+2 { // whole requests
				wide++
			}
			residuals = append(residuals, lost-r.Reconstruction.Lost)
			said = append(said, fmt.Sprintf("%s: lost %d, model %.1f [%.0f-%.0f], reconstructed %.1f, unexplained %.1f", s, r.Lost, p.Mean, p.Band95.Low, p.Band95.High, r.Reconstruction.Lost, r.Reconstruction.Unexplained))
		}
		mean, deviation := stat.MeanStdDev(residuals, nil)
		standardError := stat.StdErr(deviation, float64(len(residuals)))
		said = append(said, fmt.Sprintf("%d of %d within 95 %%; measured less reconstructed %.2f, standard error %.2f", within, rollouts, mean, standardError))
		ginkgo.AddReportEntry("predictions", ginkgo.ReportEntryVisibilityAlways, "\n"+strings.Join(said, "\n"))
		gomega.Expect(within).To(gomega.BeNumerically(">=", rollouts*53/60), "fewer is a chance of 1 in 100 if the band holds 95 %")
		gomega.Expect(wide).To(gomega.BeZero(), "bands wider than the variance of independent phases gives")
		gomega.Expect(math.Abs(mean)).To(gomega.BeNumerically("<=", 3*standardError))
	})
})

// Runs of one thing are not called different: of twenty all 190 pairs, at the error that
// compare states for all of them.
var _ = ginkgo.Describe("runs of one dataplane", func() {
	ginkgo.It("do not differ", func(ctx ginkgo.SpecContext) {
		only("lab")
		gomega.Expect(os.MkdirAll(opts.results, 0o755)).To(gomega.Succeed())
		results, err := os.MkdirTemp(opts.results, "alike-")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		rng := rand.New(rand.NewPCG(uint64(ginkgo.GinkgoRandomSeed()), 2))
		for range 20 { // each with phases of its own
			gomega.Expect(plumbline(ctx, "run", "--cluster=lab", "--name=alike", fmt.Sprintf("--seed=%d", rng.Uint64N(1000)), "--rows=plumb-nftables:fallback,plumb-nftables:ignore+drop",
				"--rollouts=2", "--delay=6s", "--profile=l4-fast", "--await-quiet=10s", "--results="+results)).To(gomega.Succeed())
		}
		runs, err := filepath.Glob(filepath.Join(results, "2*"))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(runs).To(gomega.HaveLen(20))
		bin, err := program()
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		out, err := exec.CommandContext(ctx, bin, append([]string{"compare"}, runs...)...).CombinedOutput()
		ginkgo.AddReportEntry("comparison", ginkgo.ReportEntryVisibilityAlways, "\n"+string(out))
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
	})
})

const rollouts = 60

// setting is what a rollout is run with.
type setting struct {
	mode                  string
	delay, interval, rate int // s, 100 ms, 1/s
	fall                  int
	seed                  uint64 // of the phase too
}

func drawn(rng *rand.Rand) setting {
	return setting{
		mode:  []string{"ignore+drop", "ignore+reject", "fallback"}[rng.IntN(3)],
		delay: 1 + rng.IntN(8), interval: 8 + rng.IntN(20), rate: []int{40, 100, 200}[rng.IntN(3)], fall: 2 + rng.IntN(2), seed: rng.Uint64N(1000),
	}
}

func (s setting) String() string {
	return fmt.Sprintf("%s delay %d s, check every %.1f s, fall %d, %d/s", s.mode, s.delay, float64(s.interval)/10, s.fall, s.rate)
}

// predicted runs one rollout, and returns the one that counts with what was expected of it.
func predicted(ctx context.Context, results string, s setting) (verdict.Rollout, model.Prediction) {
	ginkgo.GinkgoHelper()
	err := plumbline(ctx, "run", "--cluster=lab", "--name=predict", "--rows=plumb-nftables:"+s.mode, "--rollouts=1", "--await-quiet=10s", fmt.Sprintf("--delay=%ds", s.delay), fmt.Sprintf("--seed=%d", s.seed),
		fmt.Sprintf("--rate=%d", s.rate), fmt.Sprintf("--profile=l4-fast,interval=%dms,fall=%d", s.interval*100, s.fall), "--results="+results)
	files, globErr := filepath.Glob(filepath.Join(results, "*", report.SummaryFile))
	gomega.Expect(globErr).NotTo(gomega.HaveOccurred())
	gomega.Expect(files).NotTo(gomega.BeEmpty(), "%v", err)
	sum, readErr := report.Read(files[0])
	gomega.Expect(readErr).NotTo(gomega.HaveOccurred())
	gomega.Expect(sum.Scenarios[0].Rows).To(gomega.HaveLen(1), "%v", err)
	row := sum.Scenarios[0].Rows[0]
	gomega.Expect(row.Rollouts).To(gomega.HaveLen(1), "%v", err)
	gomega.Expect(row.Predicted).NotTo(gomega.BeNil())
	return row.Rollouts[0], *row.Predicted
}
