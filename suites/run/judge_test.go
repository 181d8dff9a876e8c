package run

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/report"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// kept is a run on a lab, of a rollout each that drops, refuses and falls back, as `plumbline
// run` left it but for what of the summary tells of its host. Its records are compressed.
const kept = "testdata/kept"

// injected is a part of a rollout that falls back, into which trouble was put (make truth): drops,
// refusals and resets at the balancer, the node and the pod, with the packets of what met them.
const injected = "testdata/injected"

// TestRecordedRollouts holds the verdict, and all that is made of it, to rollouts that took place.
func TestRecordedRollouts(t *testing.T) {
	for run, files := range map[string][]string{
		kept: {report.SummaryFile, report.JUnitFile, report.MarkdownFile, report.HTMLFile}, injected: {report.SummaryFile, report.MarkdownFile},
	} {
		sum, err := Judge(run)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := report.Write(dir, sum); err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			golden := filepath.Join(run+"-judged", name)
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := errors.Join(os.MkdirAll(run+"-judged", 0o755), os.WriteFile(golden, got, 0o644)); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s (-want +got; -update rewrites it):\n%s", golden, d)
			}
		}
	}
}

func TestJudgeSaysWhatItLacks(t *testing.T) {
	dir := t.TempDir()
	if _, err := Judge(dir); err == nil || !strings.Contains(err.Error(), report.SummaryFile) {
		t.Errorf("an empty folder: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(kept, report.SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, report.SummaryFile), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Judge(dir); err == nil || !strings.Contains(err.Error(), "its records were not kept") {
		t.Errorf("a run without records: %v", err)
	}
}
