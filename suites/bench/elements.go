//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// tables is what nftables holds in a namespace, as messages that write it to another.
type tables struct {
	frame    []netlink.Message // tables, sets and chains without rules
	elements []netlink.Message
}

// elements times the kernel alone: the elements that a start has brought, written by nobody's
// program into a namespace of their own, in as few transactions as fit a buffer. Whoever listens to
// nftables does so meanwhile, as during the start: the kernel makes its messages.
func (s *subject) elements(context.Context) (err error) {
	if !s.row.Own() || s.row.Shows != inTables {
		return nil
	}
	there, err := readTables(s.w.node)
	if err != nil || len(there.elements) == 0 {
		return err
	}
	ns, err := netns.New(filepath.Base(s.w.dir) + "-elements-" + filepath.Base(s.w.kube))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	defer holdGarbage()()
	if err := writeMessages(ns, there.frame); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	begin := time.Now()
	if err := writeMessages(ns, there.elements); err != nil {
		return fmt.Errorf("write the elements: %w", err)
	}
	s.out.Kernel = time.Since(begin)
	return nil
}

// ColdRatio is the cold start in the kernel's own time, 0 for none.
func (r Result) ColdRatio() float64 {
	if r.Kernel == 0 {
		return 0
	}
	return r.Cold.Seconds() / r.Kernel.Seconds()
}

// kernel is the kernel's own time, and the ratio.
func (r Result) kernel() string {
	if r.Kernel == 0 {
		return ""
	}
	return fmt.Sprintf("%s (x %.2f)", short(r.Kernel), r.ColdRatio())
}

// nfgen is the size of struct nfgenmsg, which begins every message.
const nfgen = 4

func readTables(ns *netns.NS) (tables, error) {
	var out tables
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: ns.FD()})
	if err != nil {
		return out, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer c.Close()
	if out.frame, err = dump(c, unix.NFT_MSG_GETTABLE, unix.NFT_MSG_NEWTABLE, make([]byte, nfgen)); err != nil {
		return out, err
	}
	chains, err := dump(c, unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, make([]byte, nfgen))
	if err != nil {
		return out, err
	}
	for _, m := range chains { // that they are there is enough
		m.Data, err = attributes(m.Data, unix.NFTA_CHAIN_TABLE, unix.NFTA_CHAIN_NAME)
		if err != nil {
			return out, err
		}
		out.frame = append(out.frame, m)
	}
	sets, err := dump(c, unix.NFT_MSG_GETSET, unix.NFT_MSG_NEWSET, make([]byte, nfgen))
	if err != nil {
		return out, err
	}
	for i, m := range sets {
		// A question for elements has the same numbers for the table and the set.
		asked, err := attributes(m.Data, unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME)
		if err != nil {
			return out, err
		}
		elems, err := dump(c, unix.NFT_MSG_GETSETELEM, unix.NFT_MSG_NEWSETELEM, asked)
		if err != nil {
			return out, err
		}
		out.elements = append(out.elements, elems...)
		// What is the kernel's alone to say, such as a handle, it refuses.
		if m.Data, err = attributes(m.Data, unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME, unix.NFTA_SET_FLAGS, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN,
			unix.NFTA_SET_DATA_TYPE, unix.NFTA_SET_DATA_LEN, unix.NFTA_SET_DESC, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_GC_INTERVAL); err != nil {
			return out, err
		}
		id, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_SET_ID, Data: binary.BigEndian.AppendUint32(nil, uint32(i)+1)}})
		if err != nil {
			return out, err
		}
		m.Data = append(m.Data, id...)
		out.frame = append(out.frame, m)
	}
	return out, nil
}

// dump asks for all of a kind, as what writes it.
func dump(c *netlink.Conn, get, add uint16, request []byte) ([]netlink.Message, error) {
	const ours = unix.NFNL_SUBSYS_NFTABLES << 8
	got, err := c.Execute(netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(ours | get), Flags: netlink.Request | netlink.Dump}, Data: request})
	if err != nil {
		return nil, fmt.Errorf("read nftables: %w", err)
	}
	out := make([]netlink.Message, 0, len(got))
	for _, m := range got {
		out = append(out, netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(ours | add), Flags: netlink.Request | netlink.Create}, Data: m.Data})
	}
	return out, nil
}

// attributes is a message with some of its attributes alone.
func attributes(data []byte, wanted ...uint16) ([]byte, error) {
	all, err := netlink.UnmarshalAttributes(data[nfgen:])
	if err != nil {
		return nil, fmt.Errorf("read nftables: %w", err)
	}
	var some []netlink.Attribute
	for _, a := range all {
		if slices.Contains(wanted, a.Type) {
			some = append(some, a)
		}
	}
	raw, err := netlink.MarshalAttributes(some)
	return append(data[:nfgen:nfgen], raw...), err
}

// writeBuffer is the send buffer asked for; the kernel makes it twice that, and a batch may have
// as much.
const writeBuffer = 8 << 20

// writeMessages writes them in batches of at most that size.
func writeMessages(ns *netns.NS, all []netlink.Message) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: ns.FD()})
	if err != nil {
		return fmt.Errorf("open netfilter socket: %w", err)
	}
	defer c.Close()
	if err := errors.Join(c.SetWriteBuffer(writeBuffer), c.SetReadBuffer(writeBuffer)); err != nil {
		return fmt.Errorf("enlarge netfilter socket: %w", err)
	}
	const most = 2*writeBuffer - 4096 // less what it keeps for itself, and the ends of a batch
	for len(all) > 0 {
		n, size := 0, 0
		for n < len(all) && (n == 0 || size+unix.NLMSG_HDRLEN+len(all[n].Data)+3 < most) {
			size += unix.NLMSG_HDRLEN + len(all[n].Data) + 3
			n++
		}
		if err := commit(c, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// commit writes one transaction, and waits for the kernel's word on its last message: an error of
// any comes before it.
func commit(c *netlink.Conn, part []netlink.Message) error {
	frame := func(typ uint16) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.Request}, Data: []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}}
	}
	part[len(part)-1].Header.Flags |= netlink.Acknowledge
	batch := append([]netlink.Message{frame(unix.NFNL_MSG_BATCH_BEGIN)}, part...)
	sent, err := c.SendMessages(append(batch, frame(unix.NFNL_MSG_BATCH_END)))
	if err != nil {
		return fmt.Errorf("write to nftables: %w", err)
	}
	for last := sent[len(sent)-2].Header.Sequence; ; {
		got, err := c.Receive()
		if err != nil {
			return fmt.Errorf("write to nftables: %w", err)
		}
		for _, m := range got {
			if m.Header.Sequence == last {
				return nil
			}
		}
	}
}
