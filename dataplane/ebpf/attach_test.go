package ebpf_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	dataplane "github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// devicesOf are the devices of a namespace but lo, by index, in the order of these.
func devicesOf(t *testing.T, ns *netns.NS) (out []netlink.LinkAttrs) {
	t.Helper()
	err := ns.Do(func() error {
		all, err := netlink.LinkList()
		for _, l := range all {
			if l.Attrs().RawFlags&unix.IFF_LOOPBACK == 0 {
				out = append(out, *l.Attrs())
			}
		}
		return err
	})
	if err != nil || len(out) < 3 {
		t.Fatalf("devices %v: %v", out, err)
	}
	slices.SortFunc(out, func(a, b netlink.LinkAttrs) int { return a.Index - b.Index })
	return out
}

// A process that ends while it attaches leaves no second program to a device, however often.
func TestEndsWhileAttaching(t *testing.T) {
	t.Parallel()
	needTCX(t)
	n, p := dptest.NewNet(t), planOf(service{number: 1, endpoints: both(2)})
	cfg, fails := config(t, n.FD()), errors.New("ended")
	devs := devicesOf(t, n.Node)
	for range 3 {
		cfg.Fault = func() error {
			if programs(t, n.Node, devs[0].Index) >= 2 && programs(t, n.Node, devs[1].Index) >= 1 {
				return fails
			}
			return nil
		}
		target := started(t, cfg)
		if err := target.Apply(t.Context(), nil, p); err != nil && !errors.Is(err, fails) {
			t.Fatal(err)
		}
		if err := target.Close(); err != nil {
			t.Fatal(err)
		}
		// The next one is of another build.
		pins, err := filepath.Glob(filepath.Join(dataplane.LayoutFolder(cfg.Pins), "*gress_[0-9a-f]*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, pin := range pins {
			if err := os.Rename(pin, pin+"_other"); err != nil {
				t.Fatal(err)
			}
		}
	}
	cfg.Fault = nil
	apply(t, started(t, cfg), nil, p)
	for _, d := range devs {
		if n := programs(t, n.Node, d.Index); n != 2 {
			t.Errorf("%s has %d programs, want 2", d.Name, n)
		}
	}
	pins, err := filepath.Glob(filepath.Join(dataplane.LayoutFolder(cfg.Pins), "*gress_*"))
	if err != nil || len(pins) != 2 {
		t.Errorf("pinned are %v (%v)", pins, err)
	}
}

// No device has a program at ingress, which begins connections, before all have one at egress,
// which masquerades them.
func TestEgressFirst(t *testing.T) {
	t.Parallel()
	needTCX(t)
	n := dptest.NewNet(t)
	cfg, devs := config(t, n.FD()), devicesOf(t, n.Node)
	seen := 0
	cfg.Fault = func() error {
		return n.Node.Do(func() error {
			in, out := have(t, devs, ebpf.AttachTCXIngress), have(t, devs, ebpf.AttachTCXEgress)
			if seen = max(seen, in); in > 0 && out < len(devs) {
				t.Errorf("%d devices have a program at ingress, and %d of %d one at egress", in, out, len(devs))
			}
			return nil
		})
	}
	apply(t, started(t, cfg), nil, planOf(service{number: 1, endpoints: both(2)}))
	if seen < len(devs)-1 {
		t.Errorf("looked while %d of %d devices had one at ingress", seen, len(devs))
	}
}

// have is how many programs devices have at a place.
func have(t *testing.T, devs []netlink.LinkAttrs, at ebpf.AttachType) (n int) {
	t.Helper()
	for _, d := range devs {
		there, err := link.QueryPrograms(link.QueryOptions{Target: d.Index, Attach: at})
		if err != nil {
			t.Error(err)
			return 0
		}
		n += len(there.Programs)
	}
	return n
}

// Where no predecessor serves, no frontend is in the maps before all devices have both programs: else the
// answer to what one translates would come by one that lacks its own, beside rules of another backend.
// Addresses that no Service has are dropped when those that one has are known.
func TestFrontendsAfterPrograms(t *testing.T) {
	t.Parallel()
	needTCX(t)
	n, p := dptest.NewNet(t), planOf(service{number: 1, endpoints: both(2)})
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	cfg, devs := config(t, n.FD()), devicesOf(t, n.Node)
	vip, empty := service{number: 1}.vip(false).String(), 0
	cfg.Fault = func() error {
		return n.Node.Do(func() error {
			holds, err := dataplane.Dump(cfg.Pins)
			in, known := have(t, devs, ebpf.AttachTCXIngress), strings.Contains(holds, vip)
			if in > 0 && !known {
				empty++
			}
			if known && in < len(devs) {
				t.Errorf("%s is in the maps and %d of %d devices have a program at ingress", vip, in, len(devs))
			}
			if !known && strings.Contains(holds, "10.96.0.0/16") {
				t.Errorf("what is in 10.96.0.0/16 is dropped and %s not in the maps", vip)
			}
			return err
		})
	}
	apply(t, started(t, cfg), nil, p)
	if got, err := dataplane.Dump(cfg.Pins); err != nil || got != dataplane.Render(p) || !strings.Contains(got, vip) || !strings.Contains(got, "10.96.0.0/16") {
		t.Errorf("in the end the maps hold (%v)\n%s", err, got)
	}
	if empty < len(devs) {
		t.Errorf("looked %d times at programs without frontends, with %d devices", empty, len(devs))
	}
}

// A Target whose own programs serve does not begin anew for want of pins: nothing that is in the maps goes.
func TestServesWithoutPins(t *testing.T) {
	p, writes := planOf(service{number: 1, endpoints: both(2)}), 0
	p.Node.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	w := newWorld(t, p, func(c *dataplane.Config) {
		c.Fault = func() error { writes++; return nil }
	})
	back := unpinnable(t, w)
	before := writes
	apply(t, w.target, nil, p)
	if writes > before {
		t.Errorf("%d writes for what is there", writes-before)
	}
	back()
}

// A device with no room for one more program stops no other, and gets its program when it has.
func TestOneDeviceFails(t *testing.T) {
	t.Parallel()
	needTCX(t)
	n, p := dptest.NewNet(t), planOf(service{number: 1, endpoints: both(2)})
	cfg, devs, others := config(t, n.FD()), devicesOf(t, n.Node), foreign(t, 63, -1)
	attachForeign(t, n.Node, devs[0].Index, others)
	target := started(t, cfg)
	err := target.Apply(t.Context(), nil, p)
	if err == nil || !strings.Contains(err.Error(), "attach plumb_egress to "+devs[0].Name) {
		t.Fatalf("applied with %v", err)
	}
	for _, d := range devs[1:] {
		if n := programs(t, n.Node, d.Index); n != 2 {
			t.Errorf("%s has %d programs, want 2", d.Name, n)
		}
	}
	q := planOf(service{number: 2, endpoints: both(3)})
	if err := target.Apply(t.Context(), nil, q); err == nil {
		t.Fatal("the second time the device does not fail")
	}
	await(t, "while a device fails the maps are the plan's", func() bool {
		got, err := dataplane.Dump(cfg.Pins)
		return err == nil && got == dataplane.Render(q)
	})
	watched(t, target)
	if err := detach(n.Node, devs[0].Index, others[7]); err != nil {
		t.Fatal(err)
	}
	await(t, "the device has the program", func() bool { return programs(t, n.Node, devs[0].Index) == 126 })
}

// A predecessor's program that somebody takes away just before it is replaced is no failure.
func TestTakenAwayMeanwhile(t *testing.T) {
	t.Parallel()
	needTCX(t)
	p := planOf(service{number: 1, endpoints: both(2)})
	w := newWorld(t, p, nil)
	pins, err := filepath.Glob(filepath.Join(dataplane.LayoutFolder(w.cfg.Pins), "plumb_ingress_*"))
	if err != nil || len(pins) != 1 {
		t.Fatalf("pinned are %v (%v)", pins, err)
	}
	if err := os.Rename(pins[0], pins[0]+"_other"); err != nil {
		t.Fatal(err)
	}
	cfg, took := w.cfg, 0
	index := devicesOf(t, w.Node)[0].Index
	cfg.Fault = func() error { // all that is written are programs
		if took++; took > 1 {
			return nil
		}
		return detach(w.Node, index, nil)
	}
	apply(t, started(t, cfg), nil, p)
	if n := programs(t, w.Node, index); took == 0 || n != 2 {
		t.Errorf("%d writes; the device has %d programs, want 2", took, n)
	}
}

// A program of somebody else's that lets a packet pass ends its way before later ones: ours is first.
func TestBeforeOthers(t *testing.T) {
	t.Parallel()
	needTCX(t)
	n, s := dptest.NewNet(t), service{number: 1, endpoints: both(2)}
	cfg, log := config(t, n.FD()), &strings.Builder{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	w := &world{Net: n, t: t, cfg: cfg, target: started(t, cfg)}
	for _, d := range devicesOf(t, n.Node) {
		attachForeign(t, n.Node, d.Index, foreign(t, 1, 0)) // TC_ACT_OK
	}
	apply(t, w.target, nil, planOf(s))
	if says := "device=pa beside=plumb_egress"; !strings.Contains(log.String(), says) {
		t.Errorf("the log does not say %q:\n%s", says, log)
	}
	w.echo(pod(false, 2))
	c, err := w.dial(dptest.PodA, objects.TCP, 0, s.vip(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := talk(c, []byte("x")); err != nil {
		t.Error(err)
	}
}

// What is said of one device costs a look at that one.
func TestLooksAtOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), nil)
	devs := devicesOf(t, w.Node)
	for _, d := range devs[:2] {
		if err := detach(w.Node, d.Index, nil); err != nil {
			t.Fatal(err)
		}
	}
	damaged, err := w.target.Look(devs[1].Index)
	if err != nil || !damaged {
		t.Fatalf("damaged is %v, %v", damaged, err)
	}
	if a, b := programs(t, w.Node, devs[0].Index), programs(t, w.Node, devs[1].Index); a != 1 || b != 2 {
		t.Errorf("a device that was not looked at has %d programs, and the one that was %d", a, b)
	}
	if n := size(t, pinnedMap(t, w.cfg, "plumb_devices")); n != len(devs) {
		t.Errorf("%d devices have entries, want %d", n, len(devs))
	}
}

// The source of what is masqueraded is an address that lasts.
func TestMasqueradeAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), nil)
	index := 0
	w.in(w.Node, func() error {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "new"}, PeerName: "peer"}); err != nil {
			return err
		}
		d, err := netlink.LinkByName("new")
		if err != nil {
			return err
		}
		index = d.Attrs().Index
		for _, a := range []struct {
			addr      string
			scope     int
			flags     int
			preferred int
		}{
			{"198.18.0.1/32", unix.RT_SCOPE_HOST, 0, 0}, {"198.18.0.2/32", 0, 0, 0},
			{"2001:db8:99::2/64", 0, unix.IFA_F_NODAD, 3600}, {"2001:db8:99::1/64", 0, unix.IFA_F_NODAD, -1},
		} {
			at, err := netlink.ParseAddr(a.addr)
			if err != nil {
				return err
			}
			at.Scope, at.Flags = a.scope, a.flags
			if at.ValidLft = 7200; a.preferred > 0 {
				at.PreferedLft = a.preferred
			} else if a.preferred == 0 {
				at.ValidLft = 0
			}
			if err := netlink.AddrAdd(d, at); err != nil {
				return err
			}
		}
		return nil
	})
	if _, err := w.target.Look(index); err != nil {
		t.Fatal(err)
	}
	got, err := dataplane.MasqueradeOf(w.cfg.Pins, index)
	want := []netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:db8:99::2")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the addresses are %v (%v), want %v", got, err, want)
	}
}

// The node's own addresses have room beside as many as there are frontends.
func TestNodeHasRoom(t *testing.T) {
	t.Parallel()
	cfg := config(t, netns.ForTest(t, "node").FD())
	cfg.Sizes.Frontends = 4
	target, p := started(t, cfg), many(4)
	p.Node.Addrs = nil
	apply(t, target, nil, p)
	node := many(4)
	apply(t, target, p, node)
	holds(t, cfg, node)
	apply(t, started(t, cfg), nil, node)
	more := many(5)
	last := more.Services[benchName(4)].Frontends
	more.Services[benchName(4)] = plan.Service{Frontends: last[:1]} // the rest of an address alone
	for k, why := range refusedOf(t, target, node, more) {
		if want := "map plumb_addrs is full (4 entries)"; k != last[0].Key || why.Error() != want {
			t.Errorf("%s is refused for %q, want %s for %q", k, why, last[0].Key, want)
		}
	}
	holds(t, cfg, node)
}

// A network that had no room is not taken for one that is there: when it comes later that is no other's doing.
func TestNetworksWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, planOf(), func(c *dataplane.Config) { c.Logger = slog.New(slog.DiscardHandler) })
	var all []netip.Prefix
	for i := range 1100 { // of 1024
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)}), 32))
	}
	p, q := planOf(), planOf()
	p.Node.ServiceCIDRs = all
	p.Node.LocalPods = nil
	q.Node.ServiceCIDRs, q.Node.LocalPods = all[:1000], all[:1000]
	apply(t, w.target, nil, p)
	if n := size(t, pinnedMap(t, w.cfg, "plumb_networks")); n != 1024 {
		t.Fatalf("%d networks are there", n)
	}
	apply(t, w.target, p, q)
	if n := size(t, pinnedMap(t, w.cfg, "plumb_networks")); n != 1000 {
		t.Errorf("%d networks are there, want 1000", n)
	}
	if wrong, err := w.target.Wrong(); err != nil || len(wrong) > 0 {
		t.Errorf("somebody else is said to have written to %q, %v", wrong, err)
	}
}
