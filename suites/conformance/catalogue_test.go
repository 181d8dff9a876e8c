package conformance

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write suites/catalog.yaml anew")

const catalogueFile = "../catalog.yaml"

// The catalogue is what the project promises to test. A diff is a change of it.
func TestCatalogue(t *testing.T) {
	ofTheTree(t)
	all := registry
	all.Add(withFunction(leavesNothing))
	text, err := all.Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(catalogueFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	old, err := os.ReadFile(catalogueFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(old), string(text)); diff != "" {
		t.Errorf("%s is not what the behaviours say (-file +behaviours); go test ./suites/conformance -run TestCatalogue -update writes it:\n%s", catalogueFile, diff)
	}
}

// ofTheTree skips a test of the source tree where the suite judges a dataplane.
func ofTheTree(t *testing.T) {
	t.Helper()
	if os.Getenv("PLUMBLINE_CONFORMANCE") == "1" {
		t.Skip("it is about the source tree, not about a dataplane")
	}
}
