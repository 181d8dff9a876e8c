package ebpf_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// The path of every kind of frontend, as the maps have it, and without maps.
func TestPath(t *testing.T) {
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, c := range all {
		if c.Name != "source-ranges-local" && c.Name != "affinity-vip-local" && c.Name != "affinity-endpoint-terminates" && c.Name != "nodeport-no-endpoints" {
			continue
		}
		p, cfg := c.Steps[len(c.Steps)-1].Plan(), config(t, netns.ForTest(t, "node").FD())
		apply(t, started(t, cfg), nil, p)
		for _, name := range slices.SortedFunc(maps.Keys(p.Services), objects.Name.Compare) {
			for _, f := range p.Services[name].Frontends {
				text, err := ebpf.Path(p, f.Key, cfg.Pins)
				if err != nil {
					t.Fatal(err)
				}
				out.WriteString(text + "\n")
			}
		}
		if _, err := ebpf.Path(p, plan.Key{Protocol: objects.TCP, Port: 1}, cfg.Pins); err == nil {
			t.Error("the path of a frontend that the plan does not have")
		}
	}
	golden := filepath.Join("testdata", "path.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("paths (-golden +now; if they should change, run with -update):\n%s", diff)
	}
}
