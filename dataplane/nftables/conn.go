package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/commits"
)

// conn is a netfilter socket.
type conn struct {
	*netlink.Conn
	room int    // bytes a batch may have
	owns bool   // it has asked for the tables
	buf  []byte // for the answers to ask
}

// socketBuffer has room for the largest batch and for the errors that may answer it.
const socketBuffer = 8 << 20

// sendOverhead is what netlink_sendmsg keeps of a buffer for itself.
const sendOverhead = 32

// dial opens a socket with a port number, 0 for any.
func dial(netns int, port uint32) (*conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns, PID: port})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	out := &conn{Conn: c, buf: make([]byte, readSize)}
	if err := errors.Join(out.widen(socketBuffer), c.SetReadBuffer(socketBuffer)); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("enlarge netfilter socket: %w", err)
	}
	return out, nil
}

// widen asks for a send buffer, of which the kernel makes twice the size.
func (c *conn) widen(size int) error {
	if err := c.SetWriteBuffer(size); err != nil {
		return err
	}
	var err error
	c.room, err = granted(c.Conn)
	return err
}

// granted is the largest message a socket takes, which may be far less than what
// it was asked to (net.core.wmem_max).
func granted(c *netlink.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("use netfilter socket: %w", err)
	}
	var size int
	var failed error
	err = raw.Control(func(fd uintptr) { size, failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF) })
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("read the netfilter socket's buffer size: %w", err)
	}
	return size - sendOverhead, nil
}

// answerWithin bounds each wait for the kernel, which works on a batch while it
// is sent: the answer is there when sending returns. So is the first part of a
// dump, and the next whenever one is read.
const answerWithin = 30 * time.Second

var errTooLarge = errors.New("batch does not fit the netfilter socket's buffer")

// send hands a batch to the kernel and waits for its word. Only the last message
// asks for an acknowledgement: an error of any message arrives before it, and is
// the end of the batch. After an error the connection must be closed, for more
// errors of the same batch may follow.
func (c *conn) send(b *batch) error {
	if b.err != nil {
		return b.err
	}
	if b.empty() {
		return nil
	}
	if n := b.bytes(); n > c.room {
		return fmt.Errorf("%w: it has %d bytes, the buffer %d; raise the sysctl net.core.wmem_max", errTooLarge, n, c.room)
	}
	frame := func(typ uint16) netlink.Message {
		return netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.Request},
			Data:   nfgen(0, unix.NFNL_SUBSYS_NFTABLES),
		}
	}
	b.msgs[len(b.msgs)-1].Header.Flags |= netlink.Acknowledge
	all := append([]netlink.Message{frame(unix.NFNL_MSG_BATCH_BEGIN)}, b.msgs...)
	all = append(all, frame(unix.NFNL_MSG_BATCH_END))
	sent, err := c.SendMessages(all)
	if err != nil {
		return fmt.Errorf("send %d messages: %w", len(b.msgs), err)
	}
	if err := c.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return c.awaitAck(sent[len(sent)-2].Header.Sequence)
}

func (c *conn) awaitAck(seq uint32) error {
	for {
		replies, err := c.Receive()
		if err != nil {
			var op *netlink.OpError
			if errors.As(err, &op) && op.Message != "" {
				return fmt.Errorf("kernel refuses the batch (%s): %w", op.Message, err)
			}
			return fmt.Errorf("kernel refuses the batch: %w", err)
		}
		for _, m := range replies {
			if m.Header.Sequence == seq {
				return nil
			}
		}
	}
}

// readSize is the size of the kernel's answers to a dump: it makes them as large
// as the reader's buffer, up to 32 KiB. To find where the next one begins it
// walks the set from its start, so small answers make reading a large set
// quadratic.
const readSize = 64 << 10

// ask sends a request and calls f with the payload of every message of the
// answer, after its struct nfgenmsg. Of a dump that somebody wrote into it says
// commits.ErrInterrupted.
func (c *conn) ask(f family, typ uint16, flags netlink.HeaderFlags, attrs []byte, each func(typ uint16, attrs string)) error {
	req, err := c.Send(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | typ), Flags: netlink.Request | flags},
		Data:   append(nfgen(f.proto, 0), attrs...),
	})
	if err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("use netfilter socket: %w", err)
	}
	interrupted := false
	for {
		if err := c.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return fmt.Errorf("set deadline: %w", err)
		}
		var n int
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			n, _, failed = unix.Recvfrom(int(fd), c.buf, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		done, err := answers(string(c.buf[:n]), req.Header.Sequence, &interrupted, each)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	if interrupted {
		return commits.ErrInterrupted
	}
	return nil
}

// answers goes through the messages of one read.
func answers(b string, seq uint32, interrupted *bool, each func(typ uint16, attrs string)) (done bool, err error) {
	for len(b) >= messageHeader {
		n := int(native32(b))
		if n < messageHeader || n > len(b) {
			return false, fmt.Errorf("read answer: a message of %d bytes in %d", n, len(b))
		}
		typ, flags := u16(b[4:]), u16(b[6:])
		body := b[messageHeader:n]
		ours := native32(b[8:]) == seq
		b = b[min((n+3)&^3, len(b)):]
		if !ours {
			continue // of a request that was given up
		}
		*interrupted = *interrupted || flags&unix.NLM_F_DUMP_INTR != 0
		switch {
		case typ == unix.NLMSG_DONE || typ == unix.NLMSG_ERROR:
			if len(body) < 4 {
				return false, errors.New("read answer: an end without an error number")
			}
			if errno := -int32(native32(body)); errno != 0 {
				return true, unix.Errno(errno)
			}
			return true, nil
		case len(body) >= 4:
			each(typ&0xff, body[4:])
		}
	}
	return false, nil
}

func native32(b string) uint32 { return binary.NativeEndian.Uint32([]byte(b[:4])) }
