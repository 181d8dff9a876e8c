//go:build linux

package bench

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// monitor counts what changes in a namespace's nftables, until they have been quiet for a while.
type monitor struct {
	conn *netlink.Conn
	done chan struct{}
	tick chan struct{} // something came; holds one

	mu      sync.Mutex
	ops     int       // guarded by mu; rules, sets, elements … since reset
	commits int       // guarded by mu; transactions since reset
	last    time.Time // guarded by mu; the last notification
	overrun bool      // guarded by mu; the kernel had more to say than room
	await   *await    // guarded by mu; nil: nothing is looked for
}

// monitorBuffer holds the notifications of a whole cold start.
const monitorBuffer = 256 << 20

func newMonitor(ns *netns.NS) (*monitor, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: ns.FD(), Groups: 1 << (unix.NFNLGRP_NFTABLES - 1)})
	if err != nil {
		return nil, fmt.Errorf("watch nftables: %w", err)
	}
	if err := conn.SetReadBuffer(monitorBuffer); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("watch nftables: %w", err)
	}
	m := &monitor{conn: conn, done: make(chan struct{}), tick: make(chan struct{}, 1)}
	go m.run()
	return m, nil
}

func (m *monitor) run() {
	defer close(m.done)
	for {
		msgs, err := m.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			m.note(func() { m.overrun = true })
			continue
		case err != nil:
			return // closed
		}
		now := time.Now()
		m.note(func() {
			m.last = now
			for _, msg := range msgs {
				switch kind := msg.Header.Type & 0xff; kind {
				case unix.NFT_MSG_NEWGEN:
					m.commits++
					m.await.committed(now)
					continue
				case unix.NFT_MSG_NEWRULE, unix.NFT_MSG_NEWSETELEM:
					m.await.look(msg.Data)
				}
				m.ops++
			}
		})
	}
}

func (m *monitor) note(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	select {
	case m.tick <- struct{}{}:
	default:
	}
}

func (m *monitor) reset(edit) error {
	m.note(func() { m.ops, m.commits, m.last, m.overrun = 0, 0, time.Time{}, false })
	return nil
}

// errOverrun: what the notifications say of a step is not all there was.
var errOverrun = errors.New("the kernel's notifications overran the buffer")

func (m *monitor) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overrun {
		return errOverrun
	}
	return nil
}

func (m *monitor) look(a *await) error {
	m.note(func() { m.await = a })
	return nil
}

// quiet is how long the kernel must say nothing for a change to be over.
const quiet = 150 * time.Millisecond

// settleTick is how often it is asked whether there is anything to wait for.
const settleTick = time.Second

// settle waits for the first commit, and then until the kernel has said nothing for a while.
func (m *monitor) settle(deadline time.Time, over func() error) (seen, error) {
	for {
		m.mu.Lock()
		out := seen{m.ops, m.commits, m.last, m.overrun}
		rest := time.Until(deadline)
		if out.commits > 0 {
			rest = quiet - time.Since(m.last)
		}
		m.mu.Unlock()
		if rest <= 0 || out.overrun {
			return out, nil
		}
		if err := over(); err != nil && out.commits == 0 {
			return out, err
		}
		select {
		case <-m.tick:
		case <-time.After(min(rest, settleTick)):
		}
	}
}

func (m *monitor) Close() error {
	err := m.conn.Close()
	<-m.done
	return err
}
