//go:build linux

// Package commits tells who commits to nftables in a network namespace.
//
//	Generation(netns)            the number of the last transaction, by anybody
//	Listen(netns, table)         what was about the tables of that name:
//	  Watch                        each such transaction, as it ends
//	  Touched(generation)          whether there was one up to a generation
//	Steady(netns, table, read)   a reading during which there was none
//
// Of the families ip and ip6 alone. What others do to their own tables is counted as a
// generation too, and on many nodes somebody commits several times a second (kube-router,
// docker, iptables-nft in a loop): it is no reason to read anew, or to call a table changed.
//
// Concurrency: a Listener is used by one goroutine.
package commits

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// headerSize is that of struct nfgenmsg, which begins every message.
const headerSize = 4

// answerWithin bounds each wait for the kernel.
const answerWithin = 30 * time.Second

// Generation counts the transactions of the namespace.
func Generation(netns int) (uint32, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return 0, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer c.Close()
	return generation(c)
}

func generation(c *netlink.Conn) (uint32, error) {
	replies, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   make([]byte, headerSize),
	})
	if err != nil {
		return 0, fmt.Errorf("ask for the generation of nftables: %w", err)
	}
	for _, m := range replies {
		if id, ok := ends(m); ok {
			return id, nil
		}
	}
	return 0, errors.New("ask for the generation of nftables: no answer")
}

// Listener hears of every transaction of a namespace.
type Listener struct {
	conn  *netlink.Conn
	table string
}

// buffer has room for what others may commit before it is read: some ten thousands of
// elements.
const buffer = 32 << 20

// Listen hears of what is committed from now on.
func Listen(netns int, table string) (*Listener, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	if err := errors.Join(c.SetReadBuffer(buffer), c.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen to nftables: %w", err)
	}
	return &Listener{c, table}, nil
}

// Close stops listening.
func (l *Listener) Close() error { return l.conn.Close() }

// Except drops what the socket of a port commits before it reaches this process, so that
// its size does not matter.
func (l *Listener) Except(port uint32) error {
	const offset, whole = 12, 1<<32 - 1 // nlmsg_pid of struct nlmsghdr
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offset, Size: 4},
		// The load takes the bytes for a big-endian number.
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(binary.NativeEndian.AppendUint32(nil, port)), SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: whole},
	})
	if err == nil {
		err = l.conn.SetBPF(filter)
	}
	if err != nil {
		return fmt.Errorf("leave out port %d: %w", port, err)
	}
	return nil
}

// Watch calls lost once for each transaction that was about the tables, after it, but for
// those of own ports (the kernel names the socket that asked in every message), until ctx
// ends or the socket fails. If transactions come faster than they are read, the kernel says
// that some are missing, and no more until all it has told is read: that counts as one, after
// which every other is heard of.
func (l *Listener) Watch(ctx context.Context, own func(port uint32) bool, lost func()) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	touched := false
	for {
		msgs, err := l.conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			touched = false
			if err := l.drain(ctx, lost); err != nil {
				return fmt.Errorf("listen to nftables: %w", err)
			}
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return fmt.Errorf("listen to nftables: %w", err)
		}
		for _, m := range msgs {
			touched = touched || !own(m.Header.PID) && l.about(m)
			if _, end := ends(m); end && touched {
				touched = false
				lost()
			}
		}
	}
}

// drainFor is how long others may commit faster than they are heard before that counts as
// another loss.
const drainFor = time.Second

// drain reads until there is nothing more to read, and calls lost then.
func (l *Listener) drain(ctx context.Context, lost func()) error {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return err
	}
	var some [1]byte // of each message; the rest of it is dropped
	for begin := time.Now(); ctx.Err() == nil; {
		var failed error
		err := raw.Control(func(fd uintptr) { _, _, failed = unix.Recvfrom(int(fd), some[:], unix.MSG_DONTWAIT) })
		switch {
		case err != nil:
			return err
		case errors.Is(failed, unix.EAGAIN):
			lost()
			return nil
		case failed != nil && !errors.Is(failed, unix.ENOBUFS) && !errors.Is(failed, unix.EINTR):
			return failed
		case time.Since(begin) > drainFor:
			lost()
			begin = time.Now()
		}
	}
	return nil
}

// Touched looks at the transactions since the last call up to a generation, and waits for
// those that are on their way: the kernel counts a generation before it tells of it. If some
// are missing, there may have been one; the Listener is then of no more use.
func (l *Listener) Touched(generation uint32) (yes bool, err error) {
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return false, fmt.Errorf("set deadline: %w", err)
		}
		msgs, err := l.conn.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			return true, nil // nobody knows
		}
		if err != nil {
			return false, fmt.Errorf("hear of generation %d of nftables: %w", generation, err)
		}
		for _, m := range msgs {
			yes = yes || l.about(m)
			if id, end := ends(m); end && int32(id-generation) >= 0 {
				return yes, nil
			}
		}
	}
}

// about tells whether a message is of one of the tables. The first attribute of every kind
// of object is its table's name, of NFT_MSG_NEWGEN a number.
func (l *Listener) about(m netlink.Message) bool {
	if _, end := ends(m); end || m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.Data) < headerSize {
		return false
	}
	if proto := m.Data[0]; proto != unix.NFPROTO_IPV4 && proto != unix.NFPROTO_IPV6 {
		return false
	}
	d, err := netlink.NewAttributeDecoder(m.Data[headerSize:])
	return err == nil && d.Next() && d.Type() == unix.NFTA_TABLE_NAME && d.String() == l.table
}

// ends tells whether a message ends a transaction, and which.
func ends(m netlink.Message) (generation uint32, end bool) {
	if m.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN || len(m.Data) < headerSize {
		return 0, false
	}
	d, err := netlink.NewAttributeDecoder(m.Data[headerSize:])
	if err != nil {
		return 0, false
	}
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		if d.Type() == unix.NFTA_GEN_ID {
			generation = d.Uint32()
		}
	}
	return generation, true
}
