package ebpf_test

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Of what comes in, that is translated or refused which is for the node by its frame: not what a
// device only hears.
func TestFramesOfOthers(t *testing.T) {
	t.Parallel()
	s, none := service{number: 1, endpoints: both(2)}, service{number: 2}
	w := newWorld(t, planOf(s, none), nil)
	for what, mac := range map[string]net.HardwareAddr{
		"another's": {2, 0, 0, 0, 0, 7}, "multicast": {1, 0, 0x5e, 0, 0, 7}, "broadcast": {255, 255, 255, 255, 255, 255},
	} {
		for name, v6 := range families() {
			for _, to := range []service{s, none} {
				f := frame{device: "pa", mac: mac, src: podAddr(v6), dst: to.vip(v6), proto: objects.UDP}
				verdict, out := w.ingress(f)
				if _, dst := out.ends(); verdict != passes || dst != f.dst {
					t.Errorf("%s, %s: verdict %d, to %s", what, name, verdict, dst)
				}
			}
		}
	}
	if n := w.count("new") + w.count("refused"); n != 0 {
		t.Errorf("%d connections began or were refused", n)
	}
}

func podAddr(v6 bool) netip.AddrPort {
	if v6 {
		return from("[fd00:10:244:1::2]:40000")
	}
	return from(podA)
}

// A bridge with a pod: its port sees frames for the bridge, and they are the bridge's for a plan
// whose own pods are known by that.
func TestBridge(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	p := planOf(s)
	p.Node.LocalLink, p.Node.LocalPods = "cbr*", nil
	w := newWorld(t, planOf(), nil)
	var bridge net.HardwareAddr
	w.in(w.Node, func() error {
		l := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cbr0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}}
		if err := netlink.LinkAdd(l); err != nil {
			return err
		}
		bridge = l.HardwareAddr
		port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "port", MasterIndex: l.Index}, PeerName: "peer"}
		return netlink.LinkAdd(port)
	})
	apply(t, w.target, nil, p)
	for port, mac := range map[uint16]net.HardwareAddr{40000: bridge, 40001: nil} {
		w.goes(frame{device: "port", mac: mac, src: netip.AddrPortFrom(podAddr(false).Addr(), port), dst: s.vip(false), proto: objects.UDP})
	}
	if own, err := ebpf.OwnPods(w.cfg.Pins); err != nil || own != 2 {
		t.Errorf("own pods come by %d devices (%v), want 2: the bridge and its port", own, err)
	}
}

// A device that moves to another namespace takes its programs along: there they do nothing.
func TestDeviceLeaves(t *testing.T) {
	t.Parallel()
	s := service{number: 1, endpoints: both(2)}
	w := newWorld(t, planOf(s), nil)
	watched(t, w.target)
	w.in(w.Node, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "new"}, PeerName: "peer"})
	})
	f := frame{device: "new", src: from(podA), dst: s.vip(false), proto: objects.UDP}
	translated := func() bool {
		_, out := w.ingress(f)
		_, dst := out.ends()
		return dst != f.dst
	}
	await(t, "the new device is known", translated)
	there := netns.ForTest(t, "elsewhere")
	w.in(w.Node, func() error {
		l, err := netlink.LinkByName("new")
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(l, there.FD())
	})
	f.ns = there
	await(t, "the device that left is not", func() bool { return !translated() })
}

// A pod behind a bridge is served as any other.
func TestPodBehindBridge(t *testing.T) {
	t.Parallel()
	s, none := service{number: 1, endpoints: both(2)}, service{number: 2}
	w := newWorld(t, planOf(), nil)
	w.echo(pod(false, 2))
	there := netns.ForTest(t, "bridged")
	w.in(w.Node, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "cbr0"}}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("10.244.3.1/24")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(bridge, addr), netlink.LinkSetUp(bridge))
	})
	end := netns.End{NS: there, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix("10.244.3.2/24")}}
	if err := netns.Veth(netns.End{NS: w.Node, Name: "port"}, end); err != nil {
		t.Fatal(err)
	}
	w.in(w.Node, func() error {
		port, err := netlink.LinkByName("port")
		if err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("cbr0")
		if err != nil {
			return err
		}
		// Not the port's address, which a bridge takes by itself.
		return errors.Join(netlink.LinkSetMaster(port, bridge), netlink.LinkSetHardwareAddr(bridge, net.HardwareAddr{2, 0, 0, 0, 0, 1}))
	})
	if err := there.Route(netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.244.3.1")); err != nil {
		t.Fatal(err)
	}
	apply(t, w.target, nil, planOf(s, none))
	for _, proto := range protocols() {
		for _, to := range []service{s, none} {
			w.in(there, func() error {
				c, err := net.DialTimeout(proto.String(), to.vip(false).String(), soon)
				if err == nil {
					defer c.Close()
					err = talk(c, []byte("bridged"))
				}
				if refused := errors.Is(err, syscall.ECONNREFUSED); to.number == 2 && !refused || to.number == 1 && err != nil {
					t.Errorf("%s to %s: %v", proto, to.vip(false), err)
				}
				return nil
			})
		}
	}
	if n := w.count("new"); n != 2 {
		t.Errorf("%d connections began, want 2", n)
	}
}
