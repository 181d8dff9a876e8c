package kit

import (
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/fixtures/netns"
)

func connect(ns *netns.NS, n *Node, name string, gate, own netip.Prefix) error {
	err := netns.At(n.NetNS).Do(func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns.FD())}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return up(name, gate)
	})
	if err != nil {
		return err
	}
	everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if own.Addr().Is6() {
		everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if err := ns.Do(func() error { return up("eth0", own) }); err != nil {
		return err
	}
	return ns.Route(everywhere, gate.Addr())
}

// up gives a link an address that is usable at once.
func up(name string, p netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		addr.Flags = 0x02 // IFA_F_NODAD
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func unlink(name string) error {
	link, err := netlink.LinkByName(name)
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return err
	}
	return netlink.LinkDel(link)
}
