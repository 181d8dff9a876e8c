package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// kernel is the connection tracking of one network namespace.
type kernel struct {
	netns  int           // const
	within time.Duration // const; the longest wait for a part of an answer
	conn   *netlink.Conn // nil until needed, and after an error
	buffer []byte
}

// Messages of ctnetlink.
const (
	ctNew    = unix.NFNL_SUBSYS_CTNETLINK << 8
	ctGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	ctDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2
)

// receiveBuffer is as much as the kernel puts into one part of a dump.
const receiveBuffer = 32 << 10

// answerWithin bounds the wait for the kernel, which answers while it is asked or
// read from: only what it had no memory for does not come.
const answerWithin = 30 * time.Second

func (k *kernel) dial() error {
	if k.conn != nil {
		return nil
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: k.netns})
	if err != nil {
		return fmt.Errorf("open netfilter socket: %w", err)
	}
	k.conn, k.buffer = conn, make([]byte, receiveBuffer)
	return nil
}

func (k *kernel) close() error {
	if k.conn == nil {
		return nil
	}
	err := k.conn.Close()
	k.conn = nil
	return err
}

// errInterrupted: the kernel marked a dump as inconsistent (NLM_F_DUMP_INTR).
var errInterrupted = errors.New("the dump was interrupted")

// dump calls each for every flow that a filter matches, or of its family if plain.
// An error leaves the socket closed: what was under way is never read as
// something else.
func (k *kernel) dump(ctx context.Context, q filter, plain bool, each func(flow)) error {
	err := k.dial()
	if err == nil {
		err = k.get(ctx, netlink.Dump, dumpRequest(q, plain), each)
	}
	if err != nil {
		_ = k.close()
		return fmt.Errorf("dump flows of %s: %w", q, err)
	}
	return nil
}

// get reads what is asked for by the open socket.
func (k *kernel) get(ctx context.Context, flags netlink.HeaderFlags, request []byte, each func(flow)) error {
	sent, err := k.conn.Send(netlink.Message{Header: netlink.Header{Type: ctGet, Flags: netlink.Request | flags}, Data: request})
	if err != nil {
		return err
	}
	raw, err := k.conn.SyscallConn()
	if err != nil {
		return err
	}
	stop := k.stopWith(ctx)
	defer stop()
	interrupted := false
	for {
		if err := k.await(ctx); err != nil {
			return err
		}
		// Received here, not by the library: it would hold the whole table.
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), k.buffer, unix.MSG_DONTWAIT)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err := errors.Join(ctx.Err(), err, failed); err != nil {
			return err
		}
		done, cut, err := parsePart(k.buffer[:n], sent.Header.Sequence, each)
		interrupted = interrupted || cut
		switch {
		case err != nil:
			return err
		case done && interrupted:
			return errInterrupted
		case done:
			return nil
		}
	}
}

// stopWith makes reading end with ctx, until the function it returns is called.
func (k *kernel) stopWith(ctx context.Context) func() bool {
	conn := k.conn
	return context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
}

// await gives the next answer its time. It looks at ctx after the deadline is set:
// what stopWith sets stands from then on.
func (k *kernel) await(ctx context.Context) error {
	if err := k.conn.SetReadDeadline(time.Now().Add(k.within)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return ctx.Err()
}

// read is a flow as it is now, and whether it is there. (The library's Execute waits for the
// end of several messages, which the kernel announces here, and does not send.)
func (k *kernel) read(ctx context.Context, f flow) (now flow, there bool, err error) {
	if err = k.dial(); err == nil {
		err = k.get(ctx, netlink.Acknowledge, readRequest(f), func(found flow) { now, there = found, found.id == f.id })
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return f, false, nil
	case err != nil:
		_ = k.close()
		return f, false, fmt.Errorf("read flow %s: %w", f, err)
	case !there:
		return f, false, nil
	}
	return now, true, nil
}

// parsePart reads one part of a dump.
func parsePart(b []byte, sequence uint32, each func(flow)) (done, interrupted bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return false, false, fmt.Errorf("a message of %d bytes in a part of %d", size, len(b))
		}
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		data := b[unix.NLMSG_HDRLEN:size]
		if binary.NativeEndian.Uint32(b[8:]) == sequence {
			interrupted = interrupted || flags&unix.NLM_F_DUMP_INTR != 0
			switch kind {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				return true, interrupted, errno(data)
			default:
				if f, ok := parseFlow(data); ok {
					each(f)
				}
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false, interrupted, nil
}

func errno(data []byte) error {
	if len(data) >= 4 {
		if n := int32(binary.NativeEndian.Uint32(data)); n < 0 {
			return unix.Errno(-n)
		}
	}
	return nil
}

// remove deletes a flow and tells whether it was there: it may have ended, or
// have become another.
func (k *kernel) remove(ctx context.Context, f flow) (bool, error) {
	err := k.execute(ctx, ctDelete, 0, deleteRequest(f))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		if !errors.Is(err, unix.EBUSY) { // that is the answer
			_ = k.close()
		}
		return false, fmt.Errorf("delete flow %s: %w", f, err)
	}
	return true, nil
}

func (k *kernel) execute(ctx context.Context, kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) error {
	if err := k.dial(); err != nil {
		return err
	}
	stop := k.stopWith(ctx)
	defer stop()
	if err := k.await(ctx); err != nil {
		return err
	}
	_, err := k.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: data,
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = k.close() // the answer may still come
		return errors.Join(ctx.Err(), err)
	}
	return err
}
