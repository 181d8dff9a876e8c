package ebpf_test

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// clusterIP is a plan of one Service at 10.96.5.1, of so many endpoints by port.
func clusterIP(ports map[uint16]int) *plan.Plan {
	addr := netip.MustParseAddr("10.96.5.1")
	s := plan.Service{Frontends: []plan.Frontend{{Key: plan.Key{Addr: addr}, Kind: plan.ClusterIP, Outside: plan.Route{Action: plan.Reject}}}}
	for _, port := range []uint16{80, 81} {
		n, has := ports[port]
		if !has {
			continue
		}
		key := plan.Key{Addr: addr, Protocol: objects.TCP, Port: port}
		f := plan.Frontend{Key: key, Kind: plan.ClusterIP, Group: key, Outside: plan.Route{Action: plan.Forward}}
		for i := range n {
			f.Outside.Endpoints = append(f.Outside.Endpoints, plan.Endpoint{Addr: numbered("10.244.2.0", int(port)+i), Port: 8080})
		}
		s.Frontends = append(s.Frontends, f)
	}
	return &plan.Plan{Services: map[objects.Name]plan.Service{benchName(1): s}}
}

// refusedOf applies what a map has no room for.
func refusedOf(t *testing.T, target *dataplane.Target, old, new *plan.Plan) map[plan.Key]error {
	t.Helper()
	var refused *plan.Refused
	if err := target.Apply(t.Context(), old, new); !errors.As(err, &refused) {
		t.Fatalf("applied with %v", err)
	}
	return refused.Frontends
}

// A port that was refused, and goes, leaves the address to the one that is served.
func TestRefusedPortGoes(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Sizes.Endpoints = 4
	target, one, two := started(t, cfg), clusterIP(map[uint16]int{80: 1}), clusterIP(map[uint16]int{80: 1, 81: 10})
	for port, why := range refusedOf(t, target, nil, two) {
		if want := "map plumb_members is full (4 entries)"; port.Port != 81 || why.Error() != want {
			t.Errorf("%s is refused, for %q, want port 81 for %q", port, why, want)
		}
	}
	apply(t, target, two, one)
	holds(t, cfg, one)
	apply(t, target, one, clusterIP(map[uint16]int{80: 2}))
	holds(t, cfg, clusterIP(map[uint16]int{80: 2}))
}

// The rest of a ClusterIP is not refused before its ports are served, nor after.
func TestAddressComesLast(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprint("complete=", complete), func(t *testing.T) {
			cfg, asked := config(t, netns.ForTest(t, "node").FD()), 0
			cfg.Fault = func() error {
				asked++
				dump, err := dataplane.Dump(cfg.Pins)
				if err != nil {
					return err
				}
				if strings.Contains(dump, "10.96.5.1: rest refused") && strings.Count(dump, "outside forward") != 2 {
					t.Errorf("before write %d the maps are\n%s", asked, dump)
				}
				return nil
			}
			target, none, p := started(t, cfg), &plan.Plan{}, clusterIP(map[uint16]int{80: 1, 81: 1})
			if !complete {
				apply(t, target, nil, none)
				apply(t, target, none, p)
				apply(t, target, p, none)
			} else {
				apply(t, target, nil, p)
				apply(t, target, nil, none)
			}
			if asked < 10 {
				t.Errorf("%d writes", asked)
			}
		})
	}
}

// Where programs serve already and the maps have next to nothing, the API and cluster DNS are
// served before all others.
func TestFirstAtStart(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Services: map[objects.Name]plan.Service{}}
	add := func(n objects.Name, addr string) {
		key := plan.Key{Addr: netip.MustParseAddr(addr), Protocol: objects.TCP, Port: 80}
		p.Services[n] = plan.Service{Frontends: []plan.Frontend{{
			Key: key, Kind: plan.ClusterIP, Group: key,
			Outside: plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: netip.MustParseAddr("10.244.2.1"), Port: 8080}}},
		}}}
	}
	for i := range 20 {
		add(benchName(i), fmt.Sprintf("10.96.5.%d", 1+i))
	}
	add(objects.Name{Namespace: "default", Name: "kubernetes"}, "10.96.6.1") // the last by address
	add(objects.Name{Namespace: "kube-system", Name: "kube-dns"}, "10.96.6.2")
	cfg, partly := config(t, netns.ForTest(t, "node").FD()), 0
	cfg.Fault = func() error {
		dump, err := dataplane.Dump(cfg.Pins)
		if err != nil {
			return err
		}
		others, wanted := strings.Count(dump, "address 10.96.5."), strings.Count(dump, "address 10.96.6.")
		if others > 0 && wanted != 2 {
			t.Errorf("with %d of those that are to be first the maps are\n%s", wanted, dump)
		}
		if others > 0 && others < 20 {
			partly++
		}
		return nil
	}
	target := started(t, cfg)
	apply(t, target, nil, &plan.Plan{})
	apply(t, target, nil, p)
	if partly == 0 {
		t.Error("all were served at once: nothing is told of their order")
	}
}

// A process that finds what it is to write writes nothing.
func TestRestartWritesNothing(t *testing.T) {
	t.Parallel()
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	ns := netns.ForTest(t, "node")
	for _, c := range all {
		if c.Options.SCTP {
			continue
		}
		cfg, p := config(t, ns.FD()), c.Plan()
		apply(t, started(t, cfg), nil, p)
		holds(t, cfg, p) // and nothing is left over
		writes := 0
		cfg.Fault = func() error { writes++; return nil }
		apply(t, started(t, cfg), nil, p)
		if writes > 0 {
			t.Errorf("case %s: %d writes", c.Name, writes)
		}
	}
}

// pinnedMap is one of the maps.
func pinnedMap(t *testing.T, cfg dataplane.Config, name string) *ebpf.Map {
	t.Helper()
	m, err := ebpf.LoadPinnedMap(filepath.Join(dataplane.LayoutFolder(cfg.Pins), name), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func size(t *testing.T, m *ebpf.Map) (n int) {
	t.Helper()
	it, key, value := m.Iterate(), make([]byte, m.KeySize()), make([]byte, m.ValueSize())
	for it.Next(&key, &value) {
		n++
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return n
}

// A list that got shorter fails at any write; the complete Apply that follows leaves nothing of it.
func TestFailedShrink(t *testing.T) {
	t.Parallel()
	for fails := 1; ; fails++ {
		cfg, left := config(t, netns.ForTest(t, "node").FD()), 0
		cfg.Fault = func() error {
			if left--; left == 0 {
				return errors.New("no")
			}
			return nil
		}
		target, old, new := started(t, cfg), clusterIP(map[uint16]int{80: 8}), clusterIP(map[uint16]int{80: 8})
		s := &new.Services[benchName(1)].Frontends[1].Outside
		s.Endpoints = append(s.Endpoints[:2:2], s.Endpoints[3:]...)
		apply(t, target, nil, old)
		left = fails
		if target.Apply(t.Context(), old, new) == nil {
			if fails < 4 {
				t.Errorf("%d writes", fails-1)
			}
			return
		}
		apply(t, target, nil, new)
		holds(t, cfg, new)
		left = 0
		if apply(t, target, nil, new); left < 0 {
			t.Errorf("write %d failed: then everything was written, but for %d entries", fails, -left)
		}
		for _, name := range []string{"plumb_slots", "plumb_members"} {
			if n := size(t, pinnedMap(t, cfg, name)); n != 7 {
				t.Errorf("write %d failed: map %s has %d entries, want 7", fails, name, n)
			}
		}
	}
}

// A frontend that is damaged and finds no room for what it is to be serves on by what it has.
func TestRefusedServesOn(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Sizes.Endpoints = 6
	target, p := started(t, cfg), clusterIP(map[uint16]int{80: 3})
	apply(t, target, nil, p)
	members := pinnedMap(t, cfg, "plumb_members")
	key, err := members.NextKeyBytes(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := members.Delete(key); err != nil {
		t.Fatal(err)
	}
	if refused := refusedOf(t, target, nil, clusterIP(map[uint16]int{80: 7})); len(refused) != 1 {
		t.Errorf("refused are %v", refused)
	}
	if n := size(t, pinnedMap(t, cfg, "plumb_slots")); n != 3 {
		t.Errorf("the frontend has %d endpoints left, want 3", n)
	}
	apply(t, target, nil, p)
	holds(t, cfg, p)
}

// What is refused leaves what it would have changed in place as it was.
func TestRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plan.Frontend){
		"an endpoint is local now": func(f *plan.Frontend) { f.Outside.Endpoints[0].Local = true },
		"one that drains is local": func(f *plan.Frontend) { f.Draining[0].Local = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, netns.ForTest(t, "node").FD())
			cfg.Sizes.Endpoints = 12
			with := func(inside int) *plan.Plan {
				p := clusterIP(map[uint16]int{80: 5})
				f := &p.Services[benchName(1)].Frontends[1]
				f.Draining = []plan.Endpoint{{Addr: numbered("10.244.3.0", 1), Port: 8080}}
				f.Inside = &plan.Route{Action: plan.Forward, Endpoints: clusterIP(map[uint16]int{81: inside}).Services[benchName(1)].Frontends[1].Outside.Endpoints}
				return p
			}
			target, p, more := started(t, cfg), with(5), with(7)
			apply(t, target, nil, p)
			change(&more.Services[benchName(1)].Frontends[1])
			if refused := refusedOf(t, target, p, more); len(refused) != 1 {
				t.Errorf("refused are %v", refused)
			}
			holds(t, cfg, p)
			apply(t, started(t, cfg), nil, p)
			holds(t, cfg, p)
			if n := size(t, pinnedMap(t, cfg, "plumb_members")); n != 11 {
				t.Errorf("%d members, want 11", n)
			}
		})
	}
}
