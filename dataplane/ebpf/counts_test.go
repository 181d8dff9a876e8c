package ebpf

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// The names of counters are those of the programs, in their order.
func TestCountNames(t *testing.T) {
	spec, err := loadPlumb()
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("count", &enum); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, v := range enum.Values {
		if name, is := strings.CutPrefix(v.Name, "COUNT_"); is && v.Value == uint64(i) {
			want = append(want, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
		}
	}
	if diff := cmp.Diff(want, countNames()); diff != "" {
		t.Errorf("names (-of the programs +of the loader):\n%s", diff)
	}
	if n := spec.Maps[plumbMapPlumbCounts].MaxEntries; int(n) < len(want) {
		t.Errorf("there is room for %d counters, and there are %d", n, len(want))
	}
}
