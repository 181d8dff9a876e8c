package userspace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Packets with markToProxy are routed by an own table in which every address is
// local: ip rule add priority 90 fwmark 0x1000/0x3000 lookup 28780, ip route add
// local default dev lo table 28780.
const (
	rulePriority = 90
	routeTable   = 28780 // "pl"
)

func (f family) af() int {
	if f.v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (f family) rule() *netlink.Rule {
	r, mask := netlink.NewRule(), uint32(markMask)
	r.Family, r.Priority, r.Table = f.af(), rulePriority, routeTable
	r.Mark, r.Mask = markToProxy, &mask
	return r
}

func (f family) route(lo netlink.Link) *netlink.Route {
	all := &net.IPNet{IP: make(net.IP, f.addrLen), Mask: make(net.IPMask, f.addrLen)}
	return &netlink.Route{
		LinkIndex: lo.Attrs().Index, Family: f.af(), Dst: all, Table: routeTable, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
	}
}

// addRouting makes rule and route of a family; those that are there stay.
func addRouting(f family) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.RouteReplace(f.route(lo)); err != nil {
		return fmt.Errorf("add %s route of table %d: %w", f.text, routeTable, err)
	}
	if err := netlink.RuleAdd(f.rule()); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add %s routing rule to table %d: %w", f.text, routeTable, err)
	}
	return nil
}

// enabled says whether the loopback link takes routes of the family: a host may
// have sockets of IPv6 and the family switched off on its links.
func (f family) enabled() error {
	if !f.v6 {
		return nil
	}
	const sysctl = "/proc/sys/net/ipv6/conf/lo/disable_ipv6"
	off, err := os.ReadFile(sysctl)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s is not there: %w", sysctl, unix.EAFNOSUPPORT)
	case err != nil:
		return err
	case strings.TrimSpace(string(off)) != "0":
		return fmt.Errorf("%s is %s: %w", sysctl, strings.TrimSpace(string(off)), unix.EADDRNOTAVAIL)
	}
	return nil
}

// removeRouting takes both away; none there is no error.
func removeRouting(f family) error {
	for {
		err := netlink.RuleDel(f.rule())
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EAFNOSUPPORT) {
			break
		}
		if err != nil {
			return fmt.Errorf("remove %s routing rule to table %d: %w", f.text, routeTable, err)
		}
	}
	routes, err := netlink.RouteListFiltered(f.af(), &netlink.Route{Table: routeTable, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return fmt.Errorf("list %s routes of table %d: %w", f.text, routeTable, err)
	}
	for _, r := range routes {
		if err := netlink.RouteDel(&r); err != nil {
			return fmt.Errorf("remove %s route of table %d: %w", f.text, routeTable, err)
		}
	}
	return nil
}
