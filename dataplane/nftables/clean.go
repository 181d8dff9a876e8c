package nftables

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Clean removes both tables and nothing else; none there is no error.
func Clean(netns int) error {
	present, err := dump(netns)
	if err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	b := &batch{}
	for _, f := range present.tables {
		b.table(f, unix.NFT_MSG_DELTABLE)
	}
	if b.empty() {
		return nil
	}
	conn, err := dial(netns)
	if err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	defer conn.Close()
	if err := b.send(conn); err != nil {
		return fmt.Errorf("clean nftables: %w", err)
	}
	return nil
}
