package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMatrixFamilies: IP families share a row where every report says the same.
func TestMatrixFamilies(t *testing.T) {
	both := func(id string, four, six Result, reasons ...string) []Test {
		out := []Test{{ID: id, IPFamily: "IPv4", Result: four}, {ID: id, IPFamily: "IPv6", Result: six}}
		for i, reason := range reasons {
			out[i].Reason = reason
		}
		return out
	}
	report := func(mode string, tests ...[]Test) Report {
		return Report{Implementation: Implementation{Project: "p", Mode: mode}, Documented: []Documented{{"known", "no", []string{"KEP-1"}}}, Tests: slices.Concat(tests...)}
	}
	got := Matrix([]Report{
		report("a", both("good", Pass, Pass), both("one-differs", Pass, Pass), both("why-differs", Fail, Fail, "x", "y"),
			both("known", Fail, Fail, "x", "y"), both("absent", Pass, Pass), []Test{{ID: "single", Result: Pass}}, both("four", Pass, Pass)[:1]),
		report("b", both("good", Pass, Pass), both("one-differs", Pass, Fail, "", "z"), both("why-differs", Pass, Pass),
			both("known", Fail, Fail, "v", "w"), both("absent", Pass, Pass)[1:], []Test{{ID: "single", Result: Pass}}, both("four", Pass, Pass)[:1]),
	})
	var rows []string
	for line := range strings.Lines(got) {
		if cells := strings.Split(line, " | "); len(cells) == 5 && strings.Contains(line, "MUST") {
			rows = append(rows, strings.TrimPrefix(cells[0], "| ")+": "+cells[3]+", "+strings.TrimSuffix(cells[4], " |\n"))
		}
	}
	want := []string{
		`absent \[IPv4\]: pass, -`, `absent \[IPv6\]: pass, pass`, `four \[IPv4\]: pass, pass`, "good: pass, pass", "known: FAIL (1), FAIL (1)",
		`one-differs \[IPv4\]: pass, pass`, `one-differs \[IPv6\]: pass, FAIL (2)`, "single: pass, pass",
		`why-differs \[IPv4\]: FAIL (3), pass`, `why-differs \[IPv6\]: FAIL (4), pass`,
	}
	if d := cmp.Diff(want, rows); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, got)
	}
}

// TestMatrixLabels: the cluster is named where there are several.
func TestMatrixLabels(t *testing.T) {
	report := func(mode, cluster string, seed int64) Report {
		return Report{Implementation: Implementation{Project: "p", Mode: mode}, Environment: Environment{Cluster: cluster}, Seed: seed, Chosen: 1, Of: 1}
	}
	for _, tc := range []struct {
		reports []Report
		want    []string
	}{
		{[]Report{report("a", "lab", 1), report("b", "lab", 2)}, []string{"p a", "p b"}},
		{[]Report{report("a", "lab", 1), report("a", "lab", 2)}, []string{"p a", "p a 2"}},
		{[]Report{report("a", "lab", 1), report("b", "kind", 2)}, []string{"p a (lab)", "p b (kind)"}},
		{[]Report{report("a", "lab", 1), report("a", "kind", 2), report("a", "kind", 3)}, []string{"p a (kind)", "p a (kind) 2", "p a (lab)"}},
	} {
		if d := cmp.Diff(tc.want, newMatrix(tc.reports).labels); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}
