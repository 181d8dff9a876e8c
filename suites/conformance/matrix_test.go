package conformance

import (
	"maps"
	"os"
	"regexp"
	"slices"
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
