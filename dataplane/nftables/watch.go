package nftables

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

// Watch calls lost whenever somebody else changes the tables: deletes or adds a
// table, chain, rule, set or element of ours, or flushes the rule set. It is
// called once for each such transaction, after it. The Target's own transactions
// do not count, and other tables are nobody's business. Watch runs until ctx ends
// or the socket fails; it may run beside Apply.
//
// The kernel names the socket that asked for a change in every message about it.
// Own ones are dropped before they reach this process, so their number does not
// matter. If foreign ones come faster than they are read, the kernel says that
// some are missing, which counts as a loss too.
func (t *Target) Watch(ctx context.Context, lost func()) error {
	c, err := listen(t.netns)
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	defer c.Close()
	filter, err := withoutPort(t.port)
	if err == nil {
		err = c.SetBPF(filter)
	}
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	touched := false
	for {
		msgs, err := c.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			touched = false
			lost()
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return fmt.Errorf("watch nftables: %w", err)
		}
		for _, m := range msgs {
			touched = touched || aboutUs(m)
			if touched && kind(m) == unix.NFT_MSG_NEWGEN { // the end of the transaction
				touched = false
				lost()
			}
		}
	}
}

func kind(m netlink.Message) uint16 {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES {
		return 0xff
	}
	return uint16(m.Header.Type & 0xff)
}

// aboutUs tells whether a message is of one of our tables. The first attribute
// of every kind of object is its table's name, of NFT_MSG_NEWGEN a number.
func aboutUs(m netlink.Message) bool {
	const tableName = 1
	if k := kind(m); k == 0xff || k == unix.NFT_MSG_NEWGEN || len(m.Data) < 4 {
		return false
	}
	proto := m.Data[0]
	return (proto == unix.NFPROTO_IPV4 || proto == unix.NFPROTO_IPV6) && name(attr(string(m.Data[4:]), tableName)) == TableName
}

// withoutPort drops the messages that a change by one socket causes.
func withoutPort(port uint32) ([]bpf.RawInstruction, error) {
	const offset, whole = 12, 1<<32 - 1 // nlmsg_pid of struct nlmsghdr
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offset, Size: 4},
		// The load takes the bytes for a big-endian number.
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(native(port)), SkipFalse: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: whole},
	})
}
