//go:build mutations

package main

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// lifeMutations are wrong about connections that last, and about the agent's own
// beginning and end.
func lifeMutations() map[string]func(*changes) {
	return map[string]func(*changes){
		"stale-udp-flows-kept":       func(c *changes) { c.options = func(a *agent) { a.backend.flows = false } },
		"udp-flows-deleted-at-start": func(c *changes) { c.started = func(backend) error { return forget(unix.IPPROTO_UDP) } },
		"tcp-reset-by-default":       func(c *changes) { c.options = func(a *agent) { a.opt.resetTCP = true } },
		"rules-removed-at-exit":      func(c *changes) { c.stopped = func(b backend) error { return b.clean() } },
		"rules-removed-at-start":     func(c *changes) { c.started = func(b backend) error { return b.clean() } },
		"cleanup-does-nothing":       func(c *changes) { c.clean = func() error { return nil } },
	}
}

// forget deletes what the node's connection tracking remembers of a protocol.
func forget(protocol uint8) error {
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		filter := &netlink.ConntrackFilter{}
		if err := filter.AddProtocol(protocol); err != nil {
			return fmt.Errorf("forget flows of protocol %d: %w", protocol, err)
		}
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter); err != nil {
			return fmt.Errorf("forget flows of protocol %d: %w", protocol, err)
		}
	}
	return nil
}
