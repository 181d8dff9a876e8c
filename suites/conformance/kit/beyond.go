package kit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/fixtures/probe/sock"
)

// beyond is a host outside the cluster, and its link to the node that is its router. It is
// lent from one behaviour to the next, as the kernel has much to do for each link that goes:
// it looks through all connections of a node for each of its addresses (nf_nat_masquerade).
type beyond struct {
	router    *Node
	family    corev1.IPFamily
	key       string // its number is taken; see Env.take
	link      string // its name on the router
	gate, own netip.Prefix
	ns        *netns.NS
	place     *sock.Place
}

// spares are how many hosts beyond a node are kept for each family. Those of four nodes leave
// most numbers to those that are lent.
const spares = 4

// HostBeyond is a host outside the cluster whose router is a node: whatever it sends
// arrives there, as packets do that a load balancer in VIP mode passes on. Only that
// node knows a way back to it. It needs NeedNodes.
func (s *Spec) HostBeyond(n *Node) Client {
	if s.planned != nil {
		return s.plannedHost(n)
	}
	h := s.env.lend(n, s.Family)
	if h == nil {
		h = s.newBeyond(n)
	}
	s.onEnd(func() error { return s.env.giveBack(h) })
	return s.client(h)
}

// HostWithRow is a HostBeyond with eight addresses in a row, of which the middle four, and so
// their halves, are ranges.
func (s *Spec) HostWithRow(n *Node) (host Client, row []netip.Addr) {
	within := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, 240}), 28)
	if s.Family == corev1.IPv6Protocol {
		within = netip.MustParsePrefix("2001:db8:3::f0/124")
	}
	return s.hostWithin(n, within, 2, 8)
}

// many are more clients than any list that is short by mistake has room for.
const many = 96

// HostOfMany is a HostBeyond with 96 addresses, each of which is a client to a dataplane. Those of IPv4
// are the lower half of FurtherRange, which no Service has while behaviours run side by side.
func (s *Spec) HostOfMany(n *Node) (host Client, addrs []netip.Addr) {
	within := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, 0}), 25)
	if s.Family == corev1.IPv6Protocol {
		within = netip.MustParsePrefix("2001:db8:4::/120")
	}
	return s.hostWithin(n, within, 1, many)
}

// hostWithin is a HostBeyond with further addresses of a range that is its own: so many, from one on.
func (s *Spec) hostWithin(n *Node, within netip.Prefix, first, count int) (host Client, addrs []netip.Addr) {
	a := within.Addr()
	for i := range first + count {
		if i >= first {
			addrs = append(addrs, a)
		}
		a = a.Next()
	}
	if s.planned != nil {
		return s.plannedHost(n), addrs
	}
	h := s.newBeyond(n)
	s.onEnd(func() error { return s.env.discard(h) })
	host = s.client(h)
	for _, a := range addrs {
		s.must(h.ns.Do(func() error { return up("eth0", netip.PrefixFrom(a, a.BitLen())) }), "give a host %s", a)
		s.beyonds[a] = n
	}
	s.Exec(n, "ip", "route", "add", within.String(), "via", h.own.Addr().String(), "dev", h.link) // it goes with the link
	return host, addrs
}

// lend takes the spare host of a node that has rested longest; nil if there is none.
func (e *Env) lend(n *Node, f corev1.IPFamily) *beyond {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.spare, func(h *beyond) bool { return h.router == n && h.family == f })
	if i < 0 {
		return nil
	}
	h := e.spare[i]
	e.spare = slices.Delete(e.spare, i, i+1)
	return h
}

// giveBack keeps a host for others, or closes it if there are enough.
func (e *Env) giveBack(h *beyond) error {
	e.mu.Lock()
	kept := 0
	for _, o := range e.spare {
		if o.router == h.router && o.family == h.family {
			kept++
		}
	}
	if kept < spares {
		e.spare = append(e.spare, h)
		e.mu.Unlock()
		return nil
	}
	e.mu.Unlock()
	return e.discard(h)
}

// discard closes a host. Its number, which its names have, is free only then.
func (e *Env) discard(h *beyond) error {
	defer e.release(h.key)
	return h.close()
}

// closeSpares closes the hosts that are kept.
func (e *Env) closeSpares() error {
	var all error
	for _, h := range e.spare {
		all = errors.Join(all, h.close())
	}
	e.spare = nil
	return all
}

// links are the numbers of hosts, by the addresses that there are for them.
const links = 60

// newBeyond makes a host whose router is a node.
func (s *Spec) newBeyond(n *Node) *beyond {
	number, key, ok := s.env.take("link"+string(s.Family), links)
	if !ok {
		s.Inconclusive("all %d numbers of hosts outside are in use", links)
	}
	h := &beyond{router: n, family: s.Family, key: key, link: fmt.Sprintf("beyond%d-%s", number, strings.TrimPrefix(string(s.Family), "IP"))}
	h.gate, h.own = s.linkAddrs(number)
	if err := h.make(fmt.Sprintf("%s-beyond-%d-%s", s.env.stage.Run(), number, s.Family)); err != nil {
		s.must(errors.Join(err, s.env.discard(h)), "make a host beyond %s", n.Name)
	}
	return h
}

// make makes the namespace of a name, and the link. What there is of them when it fails, close removes.
func (h *beyond) make(name string) (err error) {
	if h.ns, err = netns.New(name); err != nil {
		return err
	}
	if err := connect(h.ns, h.router, h.link, h.gate, h.own); err != nil {
		return fmt.Errorf("connect it: %w", err)
	}
	h.place, err = sock.NewPlace(h.ns.Do)
	return err
}

func (h *beyond) close() error {
	if h.ns == nil {
		return nil
	}
	var all error
	if h.place != nil {
		all = h.place.Close()
	}
	return errors.Join(all, netns.At(h.router.NetNS).Do(func() error { return unlink(h.link) }), h.ns.Close())
}

// client is a host as a behaviour's client, once it reaches its router.
func (s *Spec) client(h *beyond) Client {
	n := h.router
	s.beyonds[h.own.Addr()] = n
	c := Client{Name: Outside, probe: remote.Local(s.ctx, Outside, h.place.Socket), addrs: families([]netip.Addr{h.own.Addr()}), router: n}
	s.onEnd(func() error { c.probe.Close(); return nil })
	for began := time.Now(); ; {
		res, err := c.probe.Batch(s.ctx, remote.Batch{Network: remote.TCP, Target: netip.AddrPortFrom(n.Addr(s.Family), HostPort), Attempts: 1, Timeout: silence})
		s.must(err, "attempt of a host beyond %s", n.Name)
		if res.Attempts[0].Class == remote.OK {
			s.did(handHost(n, h.link, h.gate, h.own), "made a host outside, %s, whose router is node %s", h.own.Addr(), n.Name)
			return c
		}
		if time.Since(began) > s.env.cfg.Timeouts.Link {
			s.Inconclusive("a host beyond %s does not reach it: %s", n.Name, res.Attempts[0])
		}
	}
}

// plannedHost is one of which only the address is known.
func (s *Spec) plannedHost(n *Node) Client {
	_, own := s.linkAddrs(s.number("link", links))
	return Client{Name: Outside, addrs: families([]netip.Addr{own.Addr()}), router: n}
}

// linkAddrs are the node's and the host's address of a link.
func (s *Spec) linkAddrs(number int) (gate, own netip.Prefix) {
	a, bits := netip.AddrFrom4([4]byte{192, 0, 2, byte(number * 4)}).Next(), 30
	if s.Family == corev1.IPv6Protocol {
		a, bits = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 2, 7: byte(number), 15: 1}), 64
	}
	return netip.PrefixFrom(a, bits), netip.PrefixFrom(a.Next(), bits)
}

// As is the client where it dials from one of its addresses.
func (c Client) As(a netip.Addr) Client {
	c.source = a
	return c
}

// Around is the range of 2^bits addresses that has an address.
func Around(a netip.Addr, bits int) string {
	return netip.PrefixFrom(a, a.BitLen()-bits).Masked().String()
}
