package ebpf_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// other is a plan as clusterIP's, of other endpoints.
func other(n int) *plan.Plan {
	p := clusterIP(map[uint16]int{80: n})
	for i := range n {
		p.Services[benchName(1)].Frontends[1].Outside.Endpoints[i].Port++
	}
	return p
}

// What no frontend leads to any more stays for packets that are on their way, and goes by itself.
func TestGrace(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Grace = 300 * time.Millisecond
	target, p, begin := started(t, cfg), clusterIP(map[uint16]int{80: 4}), time.Now()
	apply(t, target, nil, p)
	apply(t, target, p, other(4))
	slots, members := pinnedMap(t, cfg, "plumb_slots"), pinnedMap(t, cfg, "plumb_members")
	if a, b := size(t, slots), size(t, members); (a != 8 || b != 8) && time.Since(begin) < cfg.Grace {
		t.Errorf("just after a new list there are %d slots and %d members, want 8 and 8", a, b)
	}
	took := await(t, "the old list is gone", func() bool { return size(t, slots) == 4 && size(t, members) == 4 })
	t.Logf("after %s", took)
	if since := time.Since(begin); since < cfg.Grace {
		t.Errorf("the old list is gone after %s", since)
	}
	holds(t, cfg, other(4))
}

// A slot that was given up and is taken again is not deleted.
func TestGraceCalledOff(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Grace = time.Second // longer than it takes to take a slot again: else it is deleted before, which proves nothing
	target, long, short := started(t, cfg), clusterIP(map[uint16]int{80: 6}), clusterIP(map[uint16]int{80: 5})
	apply(t, target, nil, long)
	apply(t, target, long, short)
	apply(t, target, short, long)
	two := clusterIP(map[uint16]int{80: 6, 81: 1})
	apply(t, target, long, two)
	apply(t, target, two, long) // what it leaves over is the last to go
	holds(t, cfg, long)
	if n := size(t, pinnedMap(t, cfg, "plumb_slots")); n != 6 {
		t.Errorf("%d slots, want 6", n)
	}
}

// What waits to be deleted takes no room from what comes, nor outlives the next complete Apply.
func TestGraceGivesWay(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Grace, cfg.Sizes.Endpoints = time.Hour, 8
	target, p := started(t, cfg), clusterIP(map[uint16]int{80: 4})
	apply(t, target, nil, p)
	apply(t, target, p, other(4))
	apply(t, target, other(4), p)
	apply(t, target, p, other(4))
	slots := pinnedMap(t, cfg, "plumb_slots")
	if n := size(t, slots); n != 8 {
		t.Errorf("%d slots, want 8", n)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	apply(t, started(t, cfg), nil, other(4))
	if n := size(t, slots); n != 4 {
		t.Errorf("%d slots after a complete Apply, want 4", n)
	}
	holds(t, cfg, other(4))
}

// Whatever packets depend on is seen in what Dump and Missing say.
func TestDumpShows(t *testing.T) {
	t.Parallel()
	p := planOf(service{number: 1, endpoints: append(both(2), both(3)...), leaving: both(4)})
	w := newWorld(t, p, nil)
	empty := func(name string) {
		m := pinnedMap(t, w.cfg, name)
		for {
			key, err := m.NextKeyBytes(nil)
			if err != nil {
				t.Fatal(err)
			}
			if key == nil {
				return
			}
			if err := m.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(name string, key []byte) {
		m := pinnedMap(t, w.cfg, name)
		for len(key) < int(m.KeySize()) {
			key = append(key, 0)
		}
		if err := m.Update(key, make([]byte, m.ValueSize()), ebpf.UpdateAny); err != nil {
			t.Fatal(err)
		}
	}
	some := binary.NativeEndian.AppendUint32(nil, 1<<20)
	for _, c := range []struct {
		name, says string
		do         func()
	}{
		{"no members", "is no such member", func() { empty("plumb_members") }},
		{"no slots", "has no slot 0", func() { empty("plumb_slots") }},
		{"no config", "masqueraded connections", func() { set("plumb_config", nil) }},
		{"a slot", "left over: 1 slots", func() { set("plumb_slots", some) }},
		{"a member", "left over: 1 members", func() { set("plumb_members", some) }},
		{"no entry of a device", "missing: the entry of pa", func() { empty("plumb_devices") }},
		{"no program", "missing: program plumb_ingress at out", func() {
			if err := detach(w.Node, devicesOf(t, w.Node)[0].Index, nil); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		apply(t, w.target, nil, p)
		holds(t, w.cfg, p)
		c.do()
		text, err := dumpNow(w.cfg)
		if err != nil || !strings.Contains(text, c.says) {
			t.Errorf("%s: the dump does not say %q (%v):\n%s", c.name, c.says, err, text)
		}
	}
	apply(t, w.target, nil, p)
	holds(t, w.cfg, p)
}

func dumpNow(cfg dataplane.Config) (string, error) {
	text, err := dataplane.Dump(cfg.Pins)
	if err != nil {
		return "", err
	}
	missing, err := dataplane.Missing(cfg.NetNS, cfg.Pins)
	return withMissing(text, missing), err
}

// What waits to be deleted is bounded.
func TestGraceIsBounded(t *testing.T) {
	t.Parallel()
	const endpoints, most = 10000, 1 << 14
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Grace, cfg.Sizes.Endpoints = time.Hour, 8*endpoints
	target, p := started(t, cfg), clusterIP(map[uint16]int{80: endpoints})
	apply(t, target, nil, p)
	apply(t, target, p, other(endpoints))
	apply(t, target, other(endpoints), p)
	waiting := size(t, pinnedMap(t, cfg, "plumb_slots")) + size(t, pinnedMap(t, cfg, "plumb_members")) - 2*endpoints
	if waiting != most {
		t.Errorf("%d entries wait, want %d of %d", waiting, most, 4*endpoints)
	}
}
