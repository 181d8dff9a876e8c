package mutant

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// What can be broken is what the conformance suite declares to notice.
func TestMutationsDeclared(t *testing.T) {
	const file = "../teeth/teeth.yaml"
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

// foundTrusted reads what nftables.Path writes.
func TestSlotLines(t *testing.T) {
	const file = "../../../dataplane/nftables/testdata/path.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, way, _ := strings.Cut(string(text), "\nudp node:30053\n")
	way, _, _ = strings.Cut(way, "\n\n")
	var got []string
	for _, m := range slot.FindAllStringSubmatch(way, -1) {
		got = append(got, m[1]+":"+m[2])
	}
	if diff := cmp.Diff([]string{"10.244.1.2:8080", "10.244.2.2:8080"}, got); diff != "" {
		t.Errorf("endpoints of a node port in %s (-want +got):\n%s", file, diff)
	}
}
