package conformance

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// aSource is what can be looked up: a KEP, or a page that stays as it was read.
var aSource = regexp.MustCompile(`^(KEP-[0-9]+|https://\S+)$`)

// What a dataplane is said to differ from is in the catalogue, and somebody says so.
func TestDiffersDeclared(t *testing.T) {
	if os.Getenv("PLUMBLINE_CONFORMANCE") == "1" {
		t.Skip("it is about the source tree, not about a dataplane")
	}
	ids := map[string]bool{leavesNothing.ID: true}
	for _, b := range registry.All() {
		ids[b.ID] = true
	}
	all, err := declarations()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, d := range all {
		for _, doc := range d.report().Documented {
			seen++
			if !ids[doc.Test] {
				t.Errorf("%s: there is no behaviour %s", name, doc.Test)
			}
			if strings.TrimSpace(doc.Why) == "" || len(doc.Source) == 0 {
				t.Errorf("%s, %s: it must say why, and who says so", name, doc.Test)
			}
			for _, s := range doc.Source {
				if !aSource.MatchString(s) || strings.Contains(s, "/blob/master/") || strings.Contains(s, "/blob/main/") {
					t.Errorf("%s, %s: source %q is neither a KEP nor the URL of what stays as it is", name, doc.Test, s)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("nothing is documented of any dataplane: nothing was tested")
	}
}

// The report has what is declared of the dataplane as it is named on the command line.
func TestDiffersReported(t *testing.T) {
	d, err := declaration("kube-proxy:iptables")
	if err != nil {
		t.Fatal(err)
	}
	r := d.without("sctp", "no sockets").report()
	r.Tests = []conformance.Test{{ID: leavesNothing.ID, Level: conformance.Must, Result: conformance.Fail, Reason: "a rule is left"}}
	r = conformance.Complete(r)
	if len(r.Features) != 2 || r.Features[0].Name != "nodeport-loopback" || r.Features[1].Name != "sctp" || r.Implementation.Project != "kubernetes" {
		t.Errorf("features %+v of %q", r.Features, r.Implementation.Project)
	}
	if got := r.Tests[0]; !strings.Contains(got.Known, "--cleanup") || got.Result != conformance.Fail || r.ExitCode != conformance.ExitNonConformant {
		t.Errorf("%s is %s, known %q, exit code %d", got.ID, got.Result, got.Known, r.ExitCode)
	}
}

// The report has the timeout that HAProxy is given for its checks, if it is given one.
func TestBalancerOfReport(t *testing.T) {
	for profile, want := range map[string]time.Duration{"l4-fast": time.Second, "l4-strict": 2 * time.Second, "seed": 0} {
		if got := balancer(report.LB{Profile: profile, Interval: time.Second}); time.Duration(got.Timeout) != want {
			t.Errorf("%s: timeout %s, want %s", profile, got.Timeout, want)
		}
	}
	if got := balancer(report.LB{Profile: "unknown"}); got != nil {
		t.Errorf("a load balancer of which nothing is known: %+v", got)
	}
}
