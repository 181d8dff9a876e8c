package ebpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// glanceEvery is how often programs are looked for where nothing tells that they are gone.
const glanceEvery = 500 * time.Millisecond

// Watch gives devices that come their programs, within milliseconds, and keeps what is known of
// devices (their addresses, whether own pods come by them) up to date. Where somebody took a
// program away it is put back within a second and lost is called: more may be missing. Lost is called as well where
// somebody took entries out of maps that nobody else writes: the next complete Apply puts these back. Pins it
// puts back itself. It deletes what has ended of connections, clients and fragments, ends UDP sockets whose
// endpoint is gone, and tells Config.Dropped of packets; where that fails it goes on without. Watch runs until
// ctx ends or the socket fails; it may run beside Apply.
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
	changed := &news{all: true, tell: make(chan struct{}, 1)} // what came before there was somebody to hear
	changed.tell <- struct{}{}
	run, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	run.Go(func() error { return hear(ctx, conn, changed) })
	run.Go(func() error { return t.follow(ctx, changed, lost) })
	run.Go(func() error { return t.looks(ctx, lost) })
	run.Go(func() error { return t.sweeps(ctx) })
	run.Go(func() error { return t.rescues(ctx) })
	run.Go(func() error { return t.resets(ctx) })
	if tell := t.dropped(ctx); tell != nil {
		run.Go(func() error {
			if err := t.drops(ctx, tell); err != nil {
				t.log.Warn("packets that go no further are not shown any more", "err", err)
			}
			return nil
		})
	}
	if err := run.Wait(); err != nil {
		return fmt.Errorf("watch devices: %w", err)
	}
	return nil
}

// news are devices of which something was said.
type news struct {
	tell chan struct{}

	mu    sync.Mutex
	links map[int]bool // guarded by mu; by index
	all   bool         // guarded by mu; more was said than could be heard
}

// add takes what was said: messages of links and of addresses have the link at the same place.
func (n *news) add(messages []netlink.Message, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = n.all || all
	if n.links == nil {
		n.links = map[int]bool{}
	}
	for _, m := range messages {
		if len(m.Data) >= 8 {
			n.links[int(binary.NativeEndian.Uint32(m.Data[4:]))] = true
		}
	}
	select {
	case n.tell <- struct{}{}:
	default:
	}
}

// take gives them away: nil are all devices.
func (n *news) take() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	links, all := n.links, n.all
	n.links, n.all = nil, false
	if all {
		return nil
	}
	return slices.AppendSeq([]int{}, maps.Keys(links))
}

// hear takes messages as fast as they come.
func hear(ctx context.Context, conn *netlink.Conn, changed *news) error {
	for {
		messages, err := conn.Receive()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		changed.add(messages, err != nil)
	}
}

func (t *Target) follow(ctx context.Context, changed *news, lost func()) error {
	again := time.NewTicker(t.glance)
	defer again.Stop()
	bare := complaint{log: t.log, about: "a device, or the sockets, may have no programs"}
	for {
		var only []int
		select {
		case <-ctx.Done():
			return nil
		case <-changed.tell:
			only = changed.take()
		case <-again.C:
		}
		damaged, err := t.lookAt(only)
		if bare.say(err); damaged {
			lost()
		}
	}
}

// lookAt mends, and tells as well of what no Apply fails for.
func (t *Target) lookAt(only []int) (damaged bool, err error) {
	damaged, err = t.mend(only)
	t.mu.Lock()
	defer t.mu.Unlock()
	return damaged, errors.Join(err, t.loose)
}

// mend attaches what is missing at these devices, or at all if only is nil, once a first Apply
// has.
func (t *Target) mend(only []int) (damaged bool, err error) {
	t.mu.Lock()
	ready := t.ready
	t.mu.Unlock()
	if !ready {
		return false, nil
	}
	return t.attach(only)
}
