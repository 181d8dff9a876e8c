package ebpf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// glance is how often programs are looked for where nothing tells that they are gone.
const glance = time.Second

// Watch gives devices that come their programs, within milliseconds, and keeps what is known of
// devices (their addresses, whether own pods come by them) up to date. Where somebody took a
// program away it is put back within a second and lost is called: more may be missing. Watch runs
// until ctx ends or the socket fails; it may run beside Apply.
func (t *Target) Watch(ctx context.Context, lost func()) error {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: t.cfg.NetNS})
	if err != nil {
		return fmt.Errorf("watch devices: %w", err)
	}
	defer conn.Close()
	for _, g := range []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR} {
		if err := conn.JoinGroup(g); err != nil {
			return fmt.Errorf("watch devices: join group %d: %w", g, err)
		}
	}
	changed := make(chan struct{}, 1)
	changed <- struct{}{} // what came before there was somebody to hear
	run, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	run.Go(func() error { return hear(ctx, conn, changed) })
	run.Go(func() error { return t.follow(ctx, changed, lost) })
	if err := run.Wait(); err != nil {
		return fmt.Errorf("watch devices: %w", err)
	}
	return nil
}

// hear takes messages as fast as they come.
func hear(ctx context.Context, conn *netlink.Conn, changed chan<- struct{}) error {
	for {
		_, err := conn.Receive()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) { // more was said than could be heard
			return err
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func (t *Target) follow(ctx context.Context, changed <-chan struct{}, lost func()) error {
	again := time.NewTicker(glance)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-again.C:
		}
		damaged, err := t.mend()
		if err != nil {
			t.log.Warn("a device may have no programs", "err", err)
		}
		if damaged {
			lost()
		}
	}
}

// mend attaches what is missing, once a first Apply has.
func (t *Target) mend() (damaged bool, err error) {
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	if !ready {
		return false, nil
	}
	return t.attach()
}
