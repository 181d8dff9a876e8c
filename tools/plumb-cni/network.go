package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/podnet"
)

// routeProtocol marks the routes that are ours to remove.
const routeProtocol = 189

// network applies the pod network of one node.
type network struct {
	subnets []netip.Prefix // pod subnets of the whole cluster; const
	log     *slog.Logger
	conf    string // the configuration last written
}

// apply brings configuration, routes and masquerading in line with the nodes.
// A node without pod CIDRs or address yet is left out until it has them.
func (n *network) apply(self string, nodes []*corev1.Node) error {
	routes := map[netip.Prefix]netip.Addr{}
	internal := append([]netip.Prefix(nil), n.subnets...)
	var own []netip.Prefix
	for _, node := range nodes {
		cidrs, err := podnet.CIDRs(node)
		if err != nil {
			return err
		}
		addrs := internalIPs(node)
		for _, a := range addrs {
			internal = append(internal, netip.PrefixFrom(a, a.BitLen()))
		}
		if node.Name == self {
			own = cidrs
			continue
		}
		for _, c := range cidrs {
			for _, a := range addrs {
				if a.Is4() == c.Addr().Is4() {
					routes[c] = a
				}
			}
		}
	}
	if len(own) == 0 {
		return fmt.Errorf("node %s has no pod CIDR yet", self)
	}
	return errors.Join(syncRoutes(routes), podnet.Masquerade(n.subnets, internal), n.writeConf(own))
}

func internalIPs(node *corev1.Node) []netip.Addr {
	var out []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			out = append(out, ip)
		}
	}
	return out
}

// syncRoutes replaces the wanted routes and removes those of ours that are not
// wanted any more.
func syncRoutes(want map[netip.Prefix]netip.Addr) error {
	have, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range have {
		dst, ok := prefixOf(r.Dst)
		if _, wanted := want[dst]; ok && !wanted {
			if err := netlink.RouteDel(&r); err != nil {
				return fmt.Errorf("remove route to %s: %w", dst, err)
			}
		}
	}
	for dst, via := range want {
		r := &netlink.Route{Dst: ipNet(dst), Gw: via.AsSlice(), Protocol: routeProtocol}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("route %s via %s: %w", dst, via, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}

// writeConf writes the CNI configuration, whole or not at all: the kubelet
// reports the node ready as soon as it can read one.
func (n *network) writeConf(own []netip.Prefix) error {
	conf, err := renderConf(own)
	if err != nil || conf == n.conf {
		return err
	}
	tmp := confPath + ".tmp"
	if err := os.MkdirAll(filepath.Dir(confPath), 0o755); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if err := os.WriteFile(tmp, []byte(conf), 0o644); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	if err := os.Rename(tmp, confPath); err != nil {
		return fmt.Errorf("write CNI configuration: %w", err)
	}
	n.conf = conf
	n.log.Info("wrote CNI configuration", "podCIDRs", own)
	return nil
}

// renderConf is a ptp conflist (containernetworking/plugins) with one
// host-local range and one default route per family.
func renderConf(own []netip.Prefix) (string, error) {
	type rng struct {
		Subnet string `json:"subnet"`
	}
	type route struct {
		Dst string `json:"dst"`
	}
	var ranges [][]rng
	var routes []route
	for _, p := range own {
		ranges = append(ranges, []rng{{p.String()}})
		if p.Addr().Is4() {
			routes = append(routes, route{"0.0.0.0/0"})
		} else {
			routes = append(routes, route{"::/0"})
		}
	}
	conf := map[string]any{
		"cniVersion": "0.4.0",
		"name":       "plumbline",
		"plugins": []any{
			map[string]any{
				"type":   "ptp",
				"ipMasq": false,
				"ipam":   map[string]any{"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": ranges, "routes": routes},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}
	b, err := json.MarshalIndent(conf, "", "  ")
	return string(b) + "\n", err
}
