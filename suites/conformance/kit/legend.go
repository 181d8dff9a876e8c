package kit

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/suites/conformance/cell"
	"github.com/plumbline/plumbline/suites/report/conformance"
)

// anAddress is what may be one, with or without a port.
var anAddress = regexp.MustCompile(`\[?[0-9a-fA-F]*[.:][0-9a-fA-F.:]+\]?(:[0-9]+)?`) // const

// addressesIn are those that a text names, in their order.
func addressesIn(text string) (out []netip.Addr) {
	for _, word := range anAddress.FindAllString(text, -1) {
		word = strings.TrimRight(word, ".:")
		a, err := netip.ParseAddr(strings.Trim(word, "[]"))
		if err != nil {
			var at netip.AddrPort
			if at, err = netip.ParseAddrPort(word); err == nil {
				a = at.Addr()
			}
		}
		if a = a.Unmap(); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// legend says who has the addresses that texts name: probes and their nodes, the Services, and what else
// nodes have. An address of which nothing is known is not in it.
func (s *Spec) legend(texts ...string) (out []conformance.Named) {
	known := s.known()
	for _, a := range addressesIn(strings.Join(texts, "\n")) {
		if who := known[a]; len(who) > 0 {
			out = append(out, conformance.Named{Address: a.String(), Who: strings.Join(who, "; ")})
		}
	}
	slices.SortStableFunc(out, func(a, b conformance.Named) int { return cmp.Compare(a.Who, b.Who) })
	return out
}

// known are the addresses of a behaviour.
func (s *Spec) known() map[netip.Addr][]string {
	known := map[netip.Addr][]string{}
	add := func(a netip.Addr, format string, args ...any) {
		if who := fmt.Sprintf(format, args...); a.IsValid() && !slices.Contains(known[a.Unmap()], who) {
			known[a.Unmap()] = append(known[a.Unmap()], who)
		}
	}
	for _, n := range s.env.nodes {
		zone := n.Zone
		if zone != "" {
			zone = " in " + zone
		}
		for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
			add(n.Addr(f), "node %s%s", n.Name, zone)
			for _, p := range n.pods() {
				add(p.Addr(f), "pod %s on %s", p.Name, n.Name)
			}
		}
	}
	for a, n := range s.beyonds {
		add(a, "a host outside, beyond %s", n.Name)
	}
	for _, v := range s.services {
		v.addresses(add)
	}
	if s.last.res != nil && s.last.client.Name == Outside && s.last.client.router == nil {
		for _, r := range s.last.res.Attempts {
			add(r.Src.Addr(), "outside: where the suite runs")
		}
	}
	for _, n := range s.env.nodes {
		n.further(func(a netip.Addr, link string) {
			if len(known[a.Unmap()]) == 0 {
				add(a, "node %s, at its link %s", n.Name, link)
			}
		})
	}
	return known
}

// addresses are the Service's, as it is and at which it was dialled before.
func (v *Service) addresses(add func(a netip.Addr, format string, args ...any)) {
	each := func(list []string, what string) {
		for _, text := range list {
			if a, err := netip.ParseAddr(text); err == nil { // "None" is none
				add(a, "%s of Service %s", what, v.obj.Name)
			}
		}
	}
	each(v.obj.Spec.ClusterIPs, frontWord(cell.ClusterIP))
	each(v.obj.Spec.ExternalIPs, frontWord(cell.ExternalIP))
	each(v.ingress(), frontWord(cell.LoadBalancer))
	for t, front := range v.met {
		if v.spec.nodeAt(t.to.Addr().Unmap()) == nil {
			add(t.to.Addr(), "%s of Service %s", frontWord(front), v.obj.Name)
		}
	}
}

// pods are those that are there.
func (n *Node) pods() (out []*Pod) {
	for _, p := range n.Pods() {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}

// further has f called with the addresses of the node's links. Out of reach, or if they cannot be
// listed, it has none: a legend is no less right without.
func (n *Node) further(f func(a netip.Addr, link string)) {
	if n.NetNS == "" {
		return
	}
	_ = netns.At(n.NetNS).Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			list, _ := netlink.AddrList(l, netlink.FAMILY_ALL)
			for _, a := range list {
				if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.Unmap().IsLoopback() {
					f(addr.Unmap(), l.Attrs().Name)
				}
			}
		}
		return err
	})
}

// whoIs is where a client is: its kind, its node, its address. Empty: it is not known.
func (s *Spec) whoIs(c Client) string {
	if c.Name == Outside && c.router == nil {
		return "where the suite runs"
	}
	if a := c.Addr(s.Family); a.IsValid() {
		if who := s.known()[a.Unmap()]; len(who) > 0 {
			return who[0] + ", " + a.String()
		}
	}
	return ""
}
