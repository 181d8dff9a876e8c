//go:build linux

// Package localaddr follows the addresses of the node's interfaces. Node ports
// may be served at all of them (--nodeport-addresses), and the API knows one or
// two.
//
//	Run: subscribe -> list all -> sink -> (a change) -> list all -> sink ...
//
// Left out is what no client of another host can send to: loopback and
// link-local addresses. Deprecated and tentative ones count: packets to them are
// either this node's or will be in a second.
//
// Goroutines: Run blocks, and calls the sink itself, never two calls at a time.
// Needs no privilege.
package localaddr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Config is what Run needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to look at; 0 is the
	// process's own.
	NetNS int
}

// Run calls sink with all addresses at once, and again with all of them whenever
// they are others, until ctx ends.
func Run(ctx context.Context, cfg Config, sink func(objects.LocalAddrs)) error {
	f := &follower{cfg: cfg, sink: sink}
	for {
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			// The kernel had more to say than the socket could hold. What was
			// missed is in the next list.
			cfg.Logger.Warn("changes of addresses missed, listing them again", "err", err)
		default:
			return fmt.Errorf("follow the node's addresses: %w", err)
		}
	}
}

type follower struct {
	cfg  Config
	sink func(objects.LocalAddrs)
	told bool
	last objects.LocalAddrs
}

// follow subscribes before it lists: nothing falls between the two. It returns
// when the subscription ends or ctx does.
func (f *follower) follow(ctx context.Context) error {
	groups := uint32(1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1))
	sub, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: f.cfg.NetNS, Groups: groups})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer sub.Close()
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	run, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() {
		_ = sub.SetReadDeadline(time.Unix(1, 0)) // wakes Receive; a closed socket needs no waking
	})
	defer stop()
	run.Go(func() error { return hear(sub, changed) })
	run.Go(func() error { return f.tell(ctx, changed) })
	return run.Wait()
}

// hear takes messages as fast as they come, whatever a list takes.
func hear(sub *netlink.Conn, changed chan<- struct{}) error {
	for {
		if _, err := sub.Receive(); err != nil {
			return fmt.Errorf("wait for a change: %w", err)
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// tell lists after a change, and hands on what differs.
func (f *follower) tell(ctx context.Context, changed <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		now, err := list(f.cfg.NetNS)
		if err != nil {
			return err
		}
		if !f.told || !slices.Equal(f.last, now) {
			f.told, f.last = true, now
			f.sink(slices.Clone(now))
		}
	}
}

// list is one dump. The kernel says when addresses changed in the middle of one;
// then it is made again.
func list(netns int) (objects.LocalAddrs, error) {
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer conn.Close()
	for {
		request := netlink.Message{
			Header: netlink.Header{Type: unix.RTM_GETADDR, Flags: netlink.Request | netlink.Dump},
			Data:   make([]byte, unix.SizeofIfAddrmsg),
		}
		answers, err := conn.Execute(request)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		if slices.ContainsFunc(answers, interrupted) {
			continue
		}
		return addrs(answers)
	}
}

func interrupted(m netlink.Message) bool { return m.Header.Flags&netlink.DumpInterrupted != 0 }

// addrs are those of an answer, sorted and each once: two interfaces may have the
// same.
func addrs(answers []netlink.Message) (objects.LocalAddrs, error) {
	out := objects.LocalAddrs{}
	for _, m := range answers {
		if m.Header.Type != unix.RTM_NEWADDR {
			continue
		}
		a, err := parse(m.Data)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		if a.IsValid() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && !a.IsUnspecified() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out), nil
}

// parse reads the own address of an ifaddrmsg: IFA_LOCAL, which IPv6 has not and
// means IFA_ADDRESS by. On a point-to-point link the latter is the other end's.
func parse(data []byte) (netip.Addr, error) {
	if len(data) < unix.SizeofIfAddrmsg {
		return netip.Addr{}, fmt.Errorf("read an address: message of %d bytes: %w", len(data), os.ErrInvalid)
	}
	ad, err := netlink.NewAttributeDecoder(data[unix.SizeofIfAddrmsg:])
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read an address: %w", err)
	}
	var address, local netip.Addr
	for ad.Next() {
		switch ad.Type() {
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(ad.Bytes())
		}
	}
	if err := ad.Err(); err != nil {
		return netip.Addr{}, fmt.Errorf("read an address: %w", err)
	}
	if local.IsValid() {
		return local, nil
	}
	return address, nil
}
