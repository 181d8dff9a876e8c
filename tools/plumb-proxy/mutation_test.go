//go:build mutations

package main

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// What can be broken is what the conformance suite declares to notice.
func TestMutationsDeclared(t *testing.T) {
	const file = "../../suites/conformance/teeth.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]any{}
	if err := yaml.Unmarshal(text, &declared); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(mutations()))); diff != "" {
		t.Errorf("mutations (-%s +this program):\n%s", file, diff)
	}
}
