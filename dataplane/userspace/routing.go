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
// local: ip rule add priority 90 fwmark 0x10/0x12 lookup 28780, ip route add
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
	if err := f.removeRules(func(r netlink.Rule) bool {
		return r.Mark == markToProxy && r.Mask != nil && *r.Mask == markMask && r.Priority == rulePriority
	}); err != nil {
		return err // of another version
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
	if err := f.removeRules(func(netlink.Rule) bool { return false }); err != nil {
		return err
	}
	routes, err := routesOf(f)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := netlink.RouteDel(&r); err != nil {
			return fmt.Errorf("remove %s route of table %d: %w", f.text, routeTable, err)
		}
	}
	return nil
}

// rules are those that lead to our table.
func (f family) rules() ([]netlink.Rule, error) {
	rules, err := netlink.RuleListFiltered(f.af(), &netlink.Rule{Table: routeTable}, netlink.RT_FILTER_TABLE)
	if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) {
		return nil, fmt.Errorf("list %s routing rules to table %d: %w", f.text, routeTable, err)
	}
	return rules, nil
}

func (f family) removeRules(but func(netlink.Rule) bool) error {
	rules, err := f.rules()
	if err != nil {
		return err
	}
	for _, r := range rules {
		if but(r) {
			continue
		}
		r.Family = f.af()
		if err := netlink.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %s routing rule to table %d: %w", f.text, routeTable, err)
		}
	}
	return nil
}

func routesOf(f family) ([]netlink.Route, error) {
	routes, err := netlink.RouteListFiltered(f.af(), &netlink.Route{Table: routeTable, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
	if err != nil {
		return nil, fmt.Errorf("list %s routes of table %d: %w", f.text, routeTable, err)
	}
	return routes, nil
}
