package userspace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
)

// Watch calls lost when somebody else changes what leads packets to the proxy:
// removes or adds anything of our tables, the rule set as a whole, the routing rule
// or the route. It is called once for each such transaction, after it; the Target's
// own do not count, for the kernel names the socket that asked in every message. If
// changes come faster than they are heard, that counts too. It returns when ctx
// ends, or when it cannot watch any more; it may run beside Apply.
func (t *Target) Watch(ctx context.Context, lost func()) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		l, err := commits.Listen(t.cfg.NetNS, TableName)
		if err != nil {
			return err
		}
		defer l.Close()
		return l.Watch(ctx, func(port uint32) bool { return port == t.port.Load() }, lost)
	})
	g.Go(func() error { return t.watchRoutes(ctx, lost) })
	if err := g.Wait(); err != nil {
		return fmt.Errorf("watch for changes by others: %w", err)
	}
	return nil
}

func (t *Target) watchRoutes(ctx context.Context, lost func()) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: t.cfg.NetNS})
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, g := range []uint32{unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE} {
		if err := conn.JoinGroup(g); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		msgs, err := conn.Receive()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, unix.ENOBUFS) { // more was said than could be heard
			lost()
			continue
		}
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if unroutesOurs(m) {
				lost()
			}
		}
	}
}

// unroutesOurs: a rule's table and a route's are the same attribute, after headers
// of the same size.
func unroutesOurs(m netlink.Message) bool {
	if m.Header.Type != unix.RTM_DELRULE && m.Header.Type != unix.RTM_DELROUTE {
		return false
	}
	return attribute(m, unix.SizeofRtMsg, unix.RTA_TABLE) == string(binary.NativeEndian.AppendUint32(nil, routeTable))
}

// attribute is empty if there is none.
func attribute(m netlink.Message, after int, typ uint16) string {
	if len(m.Data) < after {
		return ""
	}
	d, err := netlink.NewAttributeDecoder(m.Data[after:])
	if err != nil {
		return ""
	}
	for d.Next() {
		if d.Type() == typ {
			return string(d.Bytes())
		}
	}
	return ""
}
