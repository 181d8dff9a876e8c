package conformance

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// leftOutFile says what the suite does not test, and why.
const leftOutFile = "LEFTOUT.md"

// aRow is of its table: item of the checklist, what is not tested, why.
var aRow = regexp.MustCompile(`^\| (5\.[0-9][a-z0-9-]*) \| ([^|]+) \| ([^|]+) \|$`)

// What is left out is an item of the checklist that something else holds, with a
// reason, and in the checklist's order.
func TestLeftOut(t *testing.T) {
	const checklist = "../../dataplane/testdata/checklist.yaml"
	text, err := os.ReadFile(checklist)
	if err != nil {
		t.Fatal(err)
	}
	type item struct {
		ID           string
		Cases, Tests []string
	}
	var items []item
	if err := yaml.Unmarshal(text, &items); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(leftOutFile)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(page), "|---|---|---|\n")
	last := -1
	for line := range strings.Lines(body) {
		cells := aRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if cells == nil {
			t.Errorf("%s: %q is no row of item, what and why", leftOutFile, line)
			continue
		}
		i := slices.IndexFunc(items, func(it item) bool { return it.ID == cells[1] })
		switch {
		case i < 0:
			t.Errorf("%s: there is no item %s in %s", leftOutFile, cells[1], checklist)
		case len(items[i].Cases)+len(items[i].Tests) == 0:
			t.Errorf("%s: nothing else holds item %s", leftOutFile, cells[1])
		case i < last:
			t.Errorf("%s: item %s is not where the checklist has it", leftOutFile, cells[1])
		}
		last = max(last, i)
	}
	if last < 0 {
		t.Errorf("%s says nothing", leftOutFile)
	}
}
