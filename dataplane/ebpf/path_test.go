package ebpf_test

import (
	"maps"
	"net/netip"
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
	t.Parallel()
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

// Path says who takes what begins where, with programs at sockets.
func TestPathAtSockets(t *testing.T) {
	t.Parallel()
	cidrs := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	plain, admitted, denied, dropped := service{number: 1, endpoints: both(2)}, service{number: 2, endpoints: both(2)}, service{number: 3, endpoints: both(2)}, service{number: 4, endpoints: both(2)}
	caught, refused := service{number: 5, endpoints: append(both(2), "10.96.200.1")}, service{number: 6}
	p := planOf(plain, admitted, denied, dropped, caught, refused)
	p.Node.ServiceCIDRs = cidrs
	change := func(s service, f func(*plan.Frontend)) {
		for _, svc := range p.Services {
			for i := range svc.Frontends {
				if svc.Frontends[i].Key.Addr == s.vip(false).Addr() && !svc.Frontends[i].Key.IsWildcard() {
					f(&svc.Frontends[i])
				}
			}
		}
	}
	only := func(source string) func(*plan.Frontend) {
		return func(f *plan.Frontend) {
			f.Restricted, f.Sources = true, []netip.Prefix{netip.MustParsePrefix(source)}
		}
	}
	change(admitted, only("192.0.2.0/24"))
	change(denied, only("198.51.100.0/24"))
	change(dropped, func(f *plan.Frontend) { f.Outside = plan.Route{Action: plan.Drop} })
	w := socketWorld(t, p)
	const socket, device, leaves = "programs plumb_connect", "program plumb_ingress", "not served; program plumb_egress stops what leaves by a device"
	for _, c := range []struct {
		what      string
		key       plan.Key
		pod, node string
	}{
		{"a ClusterIP", key(plain.vip(false)), socket, socket},
		{"a ClusterIP of IPv6", key(plain.vip(true)), socket, socket},
		{"a node port", plan.Key{Protocol: objects.TCP, Port: plain.nodePort(false).Port()}, socket, socket},
		{"the rest of a ClusterIP", plan.Key{Addr: plain.vip(false).Addr()}, socket, socket},
		{"source ranges with the node", key(admitted.vip(false)), device, socket},
		{"source ranges without", key(denied.vip(false)), device, leaves + ": 192.0.2.1 is not let in"},
		{"what is dropped", key(dropped.vip(false)), device, leaves},
		{"no endpoints", key(refused.vip(false)), socket, socket},
		{"an endpoint at an address of Services", key(caught.vip(false)), socket + " and plumb_sendmsg, at its socket; where they choose 10.96.200.1:8080, which is for Services too, " + device, socket},
	} {
		text, err := ebpf.Path(p, c.key, w.cfg.Pins)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for from, want := range map[string]string{"a pod of the node": c.pod, "the node": c.node, "outside": device} {
			if !strings.Contains(text, "\nfrom "+from+": "+want) {
				t.Errorf("%s, from %s, want %q:\n%s", c.what, from, want, text)
			}
		}
		if strings.Contains(text, "missing: program") {
			t.Errorf("%s: something is missing:\n%s", c.what, text)
		}
	}
	pins, err := filepath.Glob(filepath.Join(w.cfg.Pins, "*", "plumb_sendmsg6_link"))
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins of the link: %q %v", pins, err)
	}
	if err := os.Remove(pins[0]); err != nil {
		t.Fatal(err)
	}
	if text, err := ebpf.Path(p, key(plain.vip(true)), w.cfg.Pins); err != nil || !strings.Contains(text, "\nmissing: program plumb_sendmsg6 at sockets\n") {
		t.Errorf("with a link that is gone: %v\n%s", err, text)
	}
}

func key(at netip.AddrPort) plan.Key {
	return plan.Key{IPv6: at.Addr().Is6(), Addr: at.Addr(), Protocol: objects.TCP, Port: at.Port()}
}
