package nftables

import (
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Clean removes both tables and nothing else; none there is no error.
func Clean(netns int) error {
	c, err := dial(netns, 0)
	if err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	defer c.Close()
	b := &batch{}
	for _, f := range newBoth() {
		there := false
		err := c.ask(f, unix.NFT_MSG_GETTABLE, netlink.Dump, nil, func(_ uint16, attrs string) {
			there = there || name(attr(attrs, unix.NFTA_TABLE_NAME)) == TableName
		})
		if err != nil {
			return fmt.Errorf("clean nftables: list tables of family %s: %w", f.text, err)
		}
		if there {
			b.table(f, unix.NFT_MSG_DELTABLE)
		}
	}
	if err := c.send(b); err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	return nil
}
