package disruption

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/schema"
)

var of = flag.String("report", "", "a `directory` that a run has written, such as results/latest: its report leaves no field empty")

// unknowable is what a report cannot say of a cluster of a kind: a lab's nodes have no
// image, its memory is less than what else on a host comes and goes, and an existing
// cluster is not of this host.
var unknowable = map[string][]string{ // const; only a lab has a choice of control planes
	"kind": {"controlPlane", "lacks"}, "lab": {"nodeImage", "usedMiB", "lacks"}, "existing": {"controlPlane", "nodeImage", "usedMiB", "lacks"},
}

// TestReportFilled: a report says all of its environment that its cluster could tell, and
// of which commit the programs are, if this tree is a clone; and it is as docs/schema says.
func TestReportFilled(t *testing.T) {
	if *of == "" {
		t.Skip("needs a report: -report=DIR")
	}
	path := filepath.Join(*of, report.SummaryFile)
	sum, err := report.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(reflect.TypeFor[report.Summary](), text); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	missing := slices.DeleteFunc(report.Empty(sum.Environment), func(field string) bool {
		_, err := os.Stat("../../.git")
		return slices.Contains(unknowable[sum.Environment.Cluster], field) || field == "commit" && err != nil
	})
	if len(missing) > 0 {
		t.Errorf("the report says nothing of %q", missing)
	}
	if strings.HasPrefix(sum.LB.Kind, "HAProxy") && sum.LB.Version == "" {
		t.Error("the report does not say which HAProxy")
	}
}
