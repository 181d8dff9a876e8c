package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
)

// matrixFile holds the reports of several dataplanes beside each other.
const matrixFile = "MATRIX.md"

// ofBehaviour is a row of it, of all families or of one alone.
var ofBehaviour = regexp.MustCompile(`(?m)^\| ([a-z0-9-]+)(?: \\\[IPv[46]\\\])? \| .* \| (?:MUST|SHOULD|MAY) \|`)

// What dataplanes are compared by is what the suite tests.
func TestMatrixIsOfTheCatalogue(t *testing.T) {
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	have, want := map[string]bool{}, map[string]bool{}
	for _, row := range ofBehaviour.FindAllStringSubmatch(string(text), -1) {
		have[row[1]] = true
	}
	for _, b := range behaviours.Catalogue() {
		want[b.ID] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have))); diff != "" {
		t.Errorf("%s is of other behaviours than the suite's (-suite +%s); runs of all its dataplanes write it anew:\n%s", matrixFile, matrixFile, diff)
	}
}

// Levels that are lower now have let nothing of our own through: what was a MUST before they
// followed from promises, our dataplanes keep.
func TestOwnKeepWhatWasMust(t *testing.T) {
	before, err := os.ReadFile("behaviours/testdata/levels-before.txt")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	seen := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "BEHAVIOUR" {
			head = cells
		}
		row := ofBehaviour.FindStringSubmatch(line)
		if row == nil || len(cells) != len(head) || !strings.Contains(string(before), "\n"+row[1]+" MUST\n") {
			continue
		}
		for i, result := range cells {
			if !strings.HasPrefix(head[i], "plumbline ") {
				continue
			}
			seen++
			if !strings.HasPrefix(result, "pass") && !strings.HasPrefix(result, "unsupported") {
				t.Errorf("%s of %s: %s, and it was a MUST", head[i], row[1], result)
			}
		}
	}
	if seen == 0 {
		t.Errorf("%s has no row of ours: nothing was tested", matrixFile)
	}
}
