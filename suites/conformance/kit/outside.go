package kit

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
)

// FreeAddr is an address for documentation (RFC 5737, RFC 3849) that no other
// behaviour has, for load balancers and externalIPs. No route leads to it but the
// default ones of pods and nodes.
func (s *Spec) FreeAddr() netip.Addr {
	n := s.number("address", 250)
	if s.Family == corev1.IPv6Protocol {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 0x51, 15: byte(n + 2)})
	}
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(n + 2)})
}

// number is one below max that no behaviour has, of a kind and the family: the one after that given
// last, so that what is remembered of it in the cluster is long gone.
func (s *Spec) number(kind string, max int) int {
	e := s.env
	e.mu.Lock()
	defer e.mu.Unlock()
	kind += string(s.Family)
	for range max {
		n := (e.numbers[kind] + 1) % max
		e.numbers[kind] = n
		if key := fmt.Sprint(kind, n); !e.used[key] {
			e.used[key] = true
			s.onEnd(func() error { e.release(key); return nil })
			return n
		}
	}
	s.Inconclusive("all %d numbers of addresses are in use", max)
	return 0
}

func (e *Env) release(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.used, key)
}

// HostBeyond is a host outside the cluster whose router is a node: whatever it sends
// arrives there, as packets do that a load balancer in VIP mode passes on. Only that
// node knows a way back to it. It needs NeedNodes.
func (s *Spec) HostBeyond(n *Node) Client { return s.hostBeyond(n, nil) }

// hostBeyond has further addresses too, which the node leads to it.
func (s *Spec) hostBeyond(n *Node, further []netip.Addr) Client {
	number := s.number("link", 60)
	gate, own := s.beyond(number)
	if s.planned != nil {
		return Client{Name: Outside, addrs: families([]netip.Addr{own.Addr()}), router: n}
	}
	ns, err := netns.New(fmt.Sprintf("%s-beyond-%d-%s", s.env.stage.Run(), number, s.Family))
	s.must(err, "make a host beyond %s", n.Name)
	s.onEnd(ns.Close)
	link := fmt.Sprintf("beyond%d-%s", number, strings.TrimPrefix(string(s.Family), "IP"))
	s.onEnd(func() error { return netns.At(n.NetNS).Do(func() error { return unlink(link) }) })
	s.must(connect(ns, n, link, gate, own), "connect a host to %s", n.Name)
	for _, a := range further {
		s.must(ns.Do(func() error { return up("eth0", netip.PrefixFrom(a, a.BitLen())) }), "give a host %s", a)
		s.Exec(n, "ip", "route", "add", Alone(a), "via", own.Addr().String(), "dev", link) // it goes with the link
	}
	for _, a := range append(further, own.Addr()) {
		s.beyonds[a] = n
	}
	place, err := sock.NewPlace(ns.Do)
	s.must(err, "enter the host beyond %s", n.Name)
	s.onEnd(place.Close)
	c := Client{Name: Outside, probe: remote.Local(s.ctx, Outside, place.Socket), addrs: families([]netip.Addr{own.Addr()}), router: n}
	s.onEnd(func() error { c.probe.Close(); return nil })
	for began := time.Now(); ; {
		res, err := c.probe.Batch(s.ctx, remote.Batch{Network: remote.TCP, Target: netip.AddrPortFrom(n.Addr(s.Family), HostPort), Attempts: 1, Timeout: silence})
		s.must(err, "attempt of a host beyond %s", n.Name)
		if res.Attempts[0].Class == remote.OK {
			s.did(handHost(n, link, gate, own), "made a host outside, %s, whose router is node %s", own.Addr(), n.Name)
			return c
		}
		if time.Since(began) > s.env.cfg.Timeouts.Link {
			s.Inconclusive("a host beyond %s does not reach it: %s", n.Name, res.Attempts[0])
		}
	}
}

// beyond is the node's and the host's address of a link.
func (s *Spec) beyond(number int) (gate, own netip.Prefix) {
	a, bits := netip.AddrFrom4([4]byte{192, 0, 2, byte(number * 4)}).Next(), 30
	if s.Family == corev1.IPv6Protocol {
		a, bits = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 2, 7: byte(number), 15: 1}), 64
	}
	return netip.PrefixFrom(a, bits), netip.PrefixFrom(a.Next(), bits)
}

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
