package nftables

import (
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// listenBuffer has room for what others may commit during a dump: some ten thousands of
// elements.
const listenBuffer = 32 << 20

// listen is a socket that hears of every transaction of the namespace.
func listen(netns int) (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	if err := errors.Join(c.SetReadBuffer(listenBuffer), c.JoinGroup(unix.NFNLGRP_NFTABLES)); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen to nftables: %w", err)
	}
	return c, nil
}

// witness says which transactions were about our tables.
type witness struct{ *netlink.Conn }

func newWitness(netns int) (*witness, error) {
	c, err := listen(netns)
	if err != nil {
		return nil, err
	}
	return &witness{c}, nil
}

// touched looks at the transactions since the last call up to a generation. The kernel
// counts a generation before it tells of it, so what is missing is on its way.
func (w *witness) touched(generation uint32) (ours bool, err error) {
	for {
		if err := w.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return false, fmt.Errorf("set deadline: %w", err)
		}
		msgs, err := w.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			return true, nil // nobody knows
		}
		if err != nil {
			return false, fmt.Errorf("hear of generation %d of nftables: %w", generation, err)
		}
		for _, m := range msgs {
			ours = ours || aboutUs(m)
			if kind(m) == unix.NFT_MSG_NEWGEN && int32(generationOf(m)-generation) >= 0 {
				return ours, nil
			}
		}
	}
}

// generationOf is the number that ends a transaction.
func generationOf(m netlink.Message) uint32 {
	if len(m.Data) < 4 {
		return 0
	}
	id := attr(string(m.Data[4:]), unix.NFTA_GEN_ID)
	if len(id) < 4 {
		return 0
	}
	return be32(id)
}
