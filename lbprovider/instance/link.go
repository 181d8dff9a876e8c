package instance

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

const (
	inside   = "eth0" // the load balancer's end of its link
	upWithin = 5 * time.Second
)

// check wants the bridge to be where it is said to be.
func (w wire) check() error {
	err := netns.At(pathOf(w.Wire)).Do(func() error {
		l, err := netlink.LinkByName(w.Bridge)
		if err != nil {
			return fmt.Errorf("network namespace %s has no link %s (%w)", w.Wire, w.Bridge, err)
		}
		if l.Type() != "bridge" {
			return fmt.Errorf("link %s of network namespace %s is no bridge but a %s", w.Bridge, w.Wire, l.Type())
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("network namespace %s is not there (ip netns)", w.Wire)
	}
	return err
}

// build makes the namespace full and connects it. The hardware address follows
// from the IP address: who knew it before a restart, or by another Service, need
// not ask again.
func (w wire) build(full string, s Spec) error {
	ns, err := netns.New(strings.TrimPrefix(full, netns.Prefix))
	if err != nil {
		return err
	}
	defer unix.Close(ns.FD()) // the name stays
	port := "lb-" + strings.TrimPrefix(s.Name, NamePrefix)
	if err := netns.At(pathOf(w.Wire)).Do(func() error { return w.plug(port, ns, macOf(s.Addrs[0])) }); err != nil {
		return fmt.Errorf("put %s on bridge %s of %s: %w", full, w.Bridge, w.Wire, err)
	}
	if err := ns.Do(func() error { return w.configure(s.Addrs) }); err != nil {
		return fmt.Errorf("configure %s in %s: %w", inside, full, err)
	}
	for link, at := range map[string]string{port: w.Wire, inside: full} {
		if err := netns.At(pathOf(at)).Do(func() error { return awaitUp(link) }); err != nil {
			return fmt.Errorf("wait for %s in %s: %w", link, at, err)
		}
	}
	return nil
}

func macOf(a netip.Addr) net.HardwareAddr {
	h := sha256.Sum256(a.AsSlice())
	return append(net.HardwareAddr{0x02}, h[:5]...) // locally administered, of one station
}

// plug runs in the wire's namespace.
func (w wire) plug(port string, ns *netns.NS, mac net.HardwareAddr) error {
	if err := removeLink(port); err != nil { // of a namespace whose name was taken away
		return err
	}
	bridge, err := netlink.LinkByName(w.Bridge)
	if err != nil {
		return err
	}
	err = netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: bridge.Attrs().Index},
		PeerName:  inside, PeerNamespace: netlink.NsFd(ns.FD()), PeerHardwareAddr: mac,
	})
	if err != nil {
		return err
	}
	link, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

// configure runs in the load balancer's namespace. Ports below 1024 are bound by
// a sysctl instead of a capability.
func (w wire) configure(addrs []netip.Addr) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644); err != nil {
		return err
	}
	dad := "/proc/sys/net/ipv6/conf/" + inside + "/accept_dad"
	if err := os.WriteFile(dad, []byte("0"), 0o644); err != nil && !errors.Is(err, fs.ErrNotExist) { // no IPv6 here
		return err
	}
	link, err := netlink.LinkByName(inside)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(netip.PrefixFrom(a, w.bits(a)).String())
		if err != nil {
			return err
		}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("add address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(link)
}

// bits is the prefix length of the wire's network that a is in.
func (w wire) bits(a netip.Addr) int {
	for _, n := range w.Nets {
		if n.Contains(a) {
			return n.Bits()
		}
	}
	return a.BitLen()
}

// awaitUp waits until the kernel has noticed the carrier: before, a bridge port
// forwards nothing and IPv6 answers no neighbour.
func awaitUp(name string) error {
	for deadline := time.Now().Add(upWithin); ; time.Sleep(time.Millisecond) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it is %s, not up", link.Attrs().OperState)
		}
	}
}

// removeLink removes a link that may not be there. The kernel ends the links of a
// namespace some time after its last process: one that was found may go meanwhile.
func removeLink(name string) error {
	link, err := netlink.LinkByName(name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// addrsIn lists the global addresses of eth0 of a namespace, sorted. Without such
// a link there are none.
func addrsIn(namespace string) ([]netip.Addr, error) {
	var out []netip.Addr
	err := netns.At(pathOf(namespace)).Do(func() error {
		link, err := netlink.LinkByName(inside)
		if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find %s: %w", inside, err)
		}
		list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list the addresses of %s: %w", inside, err)
		}
		for _, l := range list {
			if a, ok := netip.AddrFromSlice(l.IP); ok && a.Unmap().IsGlobalUnicast() {
				out = append(out, a.Unmap())
			}
		}
		return nil
	})
	return sorted(out), err
}
