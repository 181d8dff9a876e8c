package disruption

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/stage"
)

// takeDown is how long an interrupted run may take to remove its cluster.
const takeDown = 3 * time.Minute

// unknowable is what a report cannot say of a cluster of a kind: a lab's nodes have no
// image, and an existing cluster is not of this host.
var unknowable = map[string][]string{ // const; only a lab has a choice of control planes
	"kind": {"controlPlane"}, "lab": {"nodeImage"}, "existing": {"controlPlane", "nodeImage", "usedMiB"},
}

// One replica moves from worker to worker with every restart. The load balancer
// learns of it only by its health checks; until then the old node must go on
// serving with its terminating pod (KEP-1669), or requests are lost.
//
//	client -> HAProxy -> worker  nodePort, eTP=Local -> pod (old, terminating)
//	                  -> worker2 nodePort, eTP=Local -> pod (new)
var _ = ginkgo.Describe("rolling update", ginkgo.Label("eTP=Local", "KEP-1669"), func() {
	ginkgo.It("loses nothing with the fallback to terminating endpoints", ginkgo.GracePeriod(takeDown), func(ctx ginkgo.SpecContext) {
		if os.Getenv("PLUMBLINE_E2E") != "1" {
			ginkgo.Skip("needs a host prepared for kind (make e2e)")
		}
		sum, err := measure(ctx, opts.Scenario)
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "run the scenario")
		ginkgo.AddReportEntry("report", sum.Title)
		for _, row := range sum.Rows {
			gomega.Expect(row.Word).NotTo(gomega.BeElementOf(report.Fail, report.Blind, report.Invalid), "row %s: %s", row.Name, row.Error)
		}
		missing := slices.DeleteFunc(report.Empty(sum.Environment), func(field string) bool {
			built := field == "commit" && stage.Commit() == "" // from something else than a clone
			return built || slices.Contains(unknowable[opts.stage.Cluster], field)
		})
		gomega.Expect(missing).To(gomega.BeEmpty(), "what the report could say of its environment")
		if strings.HasPrefix(sum.LB.Kind, "HAProxy") {
			gomega.Expect(sum.LB.Version).NotTo(gomega.BeEmpty(), "the balancer's version")
		}
	})
})
