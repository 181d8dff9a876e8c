package ebpf_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// What is listed is what the maps have: all that was applied, then without what somebody took out.
func TestLive(t *testing.T) {
	t.Parallel()
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	listed := func(p *plan.Plan) []listing.Frontend { return (&listing.Numbers{}).List(p, nil) }
	for _, c := range all {
		switch c.Name {
		default:
			continue
		case "source-ranges-local", "affinity-vip-local", "affinity-endpoint-terminates", "nodeport-no-endpoints":
		}
		p, cfg := c.Steps[len(c.Steps)-1].Plan(), config(t, netns.ForTest(t, "node").FD())
		if _, missing, err := ebpf.Live(p, cfg.Pins); err != nil || len(missing) != len(listed(p)) {
			t.Errorf("%s: before anything is applied %d of %d are missing, %v", c.Name, len(missing), len(listed(p)), err)
		}
		target := started(t, cfg)
		apply(t, target, nil, p)
		live, missing, err := ebpf.Live(p, cfg.Pins)
		if err != nil || len(missing) > 0 {
			t.Fatalf("%s: missing %v, %v", c.Name, missing, err)
		}
		if diff := cmp.Diff(listed(p), listed(live)); diff != "" {
			t.Errorf("%s (-planned +listed):\n%s", c.Name, diff)
		}
		if c.Name == "nodeport-no-endpoints" {
			continue
		}
		takeOut(t, pinnedMap(t, cfg, "plumb_slots"), 1<<20)
		takeOut(t, pinnedMap(t, cfg, "plumb_fronts"), 1)
		live, missing, err = ebpf.Live(p, cfg.Pins)
		if err != nil || len(missing) != 1 {
			t.Fatalf("%s: missing %v, %v; want one", c.Name, missing, err)
		}
		for _, svc := range live.Services {
			for _, f := range svc.Frontends {
				if n := len(f.Outside.Endpoints); !f.Key.IsWildcard() && f.Key != missing[0] && n > 0 {
					t.Errorf("%s: %v still has %d endpoints", c.Name, f.Key, n)
				}
			}
		}
		apply(t, target, nil, p)
		if _, missing, err := ebpf.Live(p, cfg.Pins); err != nil || len(missing) > 0 {
			t.Errorf("%s: once it was put back there are missing %v, %v", c.Name, missing, err)
		}
	}
}
