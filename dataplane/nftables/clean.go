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
	there, owners, err := c.tables()
	if err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	b := &batch{}
	for _, f := range there {
		b.removeTable(f, TableName)
	}
	if err := c.send(b); err != nil {
		return fmt.Errorf("clean nftables: %w", explain(err, owners, 0))
	}
	return nil
}

// Left names what Clean would remove.
func Left(netns int) ([]string, error) {
	c, err := dial(netns, 0)
	if err != nil {
		return nil, fmt.Errorf("look for nftables: %w", err)
	}
	defer c.Close()
	there, _, err := c.tables()
	if err != nil {
		return nil, fmt.Errorf("look for nftables: %w", err)
	}
	var out []string
	for _, f := range there {
		out = append(out, "table "+f.text+" "+TableName)
	}
	return out, nil
}

// tables are the families that have a table of ours, and the ports of owners, by IPv6.
func (c *conn) tables() (out []family, owners map[bool]uint32, err error) {
	owners = map[bool]uint32{}
	for _, f := range newBoth() {
		there := false
		err := again(func() error {
			return c.ask(f, unix.NFT_MSG_GETTABLE, netlink.Dump, nil, func(_ uint16, attrs string) {
				if name(attr(attrs, unix.NFTA_TABLE_NAME)) == TableName {
					there, owners[f.v6] = true, be32(attr(attrs, tableOwner))
				}
			})
		})
		if err != nil {
			return nil, nil, fmt.Errorf("list tables of family %s: %w", f.text, err)
		}
		if there {
			out = append(out, f)
		}
	}
	return out, owners, nil
}
