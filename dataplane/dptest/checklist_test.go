package dptest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/dptest"
)

// item is one of dataplane/testdata/checklist.yaml: a behaviour that is promised,
// and what holds it.
type item struct {
	ID     string   `json:"id"`
	Level  string   `json:"level"` // how firmly: M must, S should, and so on, as the list's head explains
	Text   string   `json:"text"`
	Source string   `json:"source"`
	Cases  []string `json:"cases"` // of dataplane/testdata, without .txtar
	Tests  []string `json:"tests"` // package folder and test, such as "dataplane/loop TestAtOnce"
	// Behaviours are of the conformance suite, which runs on clusters.
	Behaviours []string `json:"behaviours"`
}

const (
	checklistFile  = "../testdata/checklist.yaml"
	checklistTable = "../CHECKLIST.md"
	catalogueFile  = "../../suites/catalog.yaml"
	root           = "../.."
)

// holders are what may hold an item.
type holders struct {
	cases, behaviours []string
	test              func(folder, name string) error // why there is none
}

// TestChecklist finds items that nothing holds, and holders that do not exist,
// and compares the table that is made of the list.
func TestChecklist(t *testing.T) {
	items := readChecklist(t)
	for _, hole := range holes(items, readHolders(t)) {
		t.Error(hole)
	}
	table := checklistText(items)
	if *update {
		if err := os.WriteFile(checklistTable, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(checklistTable)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(written), table); diff != "" {
		t.Errorf("%s (-file +now; run with -update):\n%s", checklistTable, diff)
	}
}

func readChecklist(t *testing.T) []item {
	t.Helper()
	raw, err := os.ReadFile(checklistFile)
	if err != nil {
		t.Fatal(err)
	}
	var items []item
	if err := yaml.UnmarshalStrict(raw, &items); err != nil {
		t.Fatalf("read %s: %v", checklistFile, err)
	}
	return items
}

func readHolders(t *testing.T) holders {
	t.Helper()
	cases, err := dptest.Load("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	var h holders
	for _, c := range cases {
		h.cases = append(h.cases, c.Name)
	}
	h.test = testsIn(h.cases)
	raw, err := os.ReadFile(catalogueFile)
	if err != nil {
		t.Fatal(err)
	}
	var catalogue struct {
		Behaviours []struct {
			ID string `json:"id"`
		} `json:"behaviours"`
	}
	if err := yaml.Unmarshal(raw, &catalogue); err != nil {
		t.Fatalf("read %s: %v", catalogueFile, err)
	}
	for _, b := range catalogue.Behaviours {
		h.behaviours = append(h.behaviours, b.ID)
	}
	return h
}

// holes are the mistakes of a list.
func holes(items []item, h holders) []string {
	var out []string
	seen := map[string]bool{}
	for _, it := range items {
		bad := func(format string, args ...any) { out = append(out, it.ID+": "+fmt.Sprintf(format, args...)) }
		if it.ID == "" || it.Level == "" || it.Text == "" || it.Source == "" {
			bad("id, level, text and source must be there: %+v", it)
		}
		if seen[it.ID] {
			bad("twice")
		}
		seen[it.ID] = true
		if len(it.Cases)+len(it.Tests)+len(it.Behaviours) == 0 {
			bad("no case and no test holds it: %s", it.Text)
		}
		for _, name := range it.Cases {
			if !slices.Contains(h.cases, name) {
				bad("no case %s", name)
			}
		}
		for _, test := range it.Tests {
			folder, name, _ := strings.Cut(test, " ")
			if err := h.test(folder, name); err != nil {
				bad("%v", err)
			}
		}
		for _, id := range it.Behaviours {
			if !slices.Contains(h.behaviours, id) {
				bad("no behaviour %s", id)
			}
		}
	}
	return out
}

func checklistText(items []item) string {
	var b strings.Builder
	b.WriteString("<!-- Made of testdata/checklist.yaml by: go test ./dataplane/dptest -run TestChecklist -update -->\n\n")
	b.WriteString("# What is promised, and what holds it\n\n")
	b.WriteString("| item | level | behaviour | source | cases, tests and behaviours of the conformance suite |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, it := range items {
		var held []string
		for _, name := range it.Cases {
			held = append(held, fmt.Sprintf("[%s](testdata/%s.txtar)", name, name))
		}
		for _, name := range it.Tests {
			held = append(held, "`"+name+"`")
		}
		for _, id := range it.Behaviours {
			held = append(held, fmt.Sprintf("[%s](../suites/catalog.yaml)", id))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", it.ID, it.Level, cell.Replace(it.Text), cell.Replace(it.Source), strings.Join(held, ", "))
	}
	return b.String()
}

// TestChecklistFindsHoles: an item for each mistake.
func TestChecklistFindsHoles(t *testing.T) {
	good := item{ID: "1", Level: "M", Text: "x", Source: "KEP", Tests: []string{"dataplane/dptest TestContractPasses/Packets"}}
	with := func(change func(*item)) []item {
		it := good
		change(&it)
		return []item{it}
	}
	for _, tc := range []struct {
		items []item
		want  string
	}{
		{[]item{good}, ""},
		{[]item{good, good}, "twice"},
		{with(func(it *item) { it.Tests = nil }), "no case and no test"},
		{with(func(it *item) { it.Cases = []string{"no-such"} }), "no case no-such"},
		{with(func(it *item) { it.Tests = []string{"dataplane/dptest TestNo"} }), "no test"},
		{with(func(it *item) { it.Tests = []string{"dataplane/nftables TestContract/Xyz"} }), "no subtest Xyz"},
		{with(func(it *item) { it.Behaviours = []string{"no-such"} }), "no behaviour no-such"},
		{with(func(it *item) { it.Tests = []string{"dataplane/nowhere TestNo"} }), "no test"},
		{with(func(it *item) { it.Source = "" }), "must be there"},
	} {
		got := strings.Join(holes(tc.items, holders{test: testsIn(nil)}), "\n")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%+v: found %q, want %q", tc.items, got, tc.want)
		}
	}
}
