package kit

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// HostWithRow is a HostBeyond with eight addresses in a row, of which the middle four, and so
// their halves, are ranges.
func (s *Spec) HostWithRow(n *Node) (host Client, row []netip.Addr) {
	a := netip.AddrFrom4([4]byte{192, 0, 2, 242})
	if s.Family == corev1.IPv6Protocol {
		a = netip.MustParseAddr("2001:db8:3::f2")
	}
	for range 8 {
		row = append(row, a)
		a = a.Next()
	}
	return s.hostBeyond(n, row), row
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
