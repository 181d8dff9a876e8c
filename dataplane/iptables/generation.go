package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const nfgenLen = 4 // struct nfgenmsg before the attributes

// generation is the number of the last change to nf_tables in a namespace, by
// anybody: while it stays, nothing has changed. The legacy interface has none.
func (t *tool) generation() (*uint32, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: t.netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	defer conn.Close()
	reply, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return nil, fmt.Errorf("ask nf_tables for its generation: %w", err)
	}
	for _, m := range reply {
		if len(m.Data) < nfgenLen {
			continue
		}
		attrs, err := netlink.NewAttributeDecoder(m.Data[nfgenLen:])
		if err != nil {
			return nil, fmt.Errorf("read the generation of nf_tables: %w", err)
		}
		attrs.ByteOrder = binary.BigEndian
		for attrs.Next() {
			if attrs.Type() == unix.NFTA_GEN_ID {
				id := attrs.Uint32()
				return &id, nil
			}
		}
	}
	return nil, errors.New("nf_tables has no generation")
}
