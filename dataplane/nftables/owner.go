package nftables

import (
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A table that is owned (NFT_TABLE_F_OWNER) is its socket's alone: nobody else writes to it, and
// `nft flush ruleset` passes it by. When the socket is closed, however its process ends, one that
// persists (NFT_TABLE_F_PERSIST) stays as it is and is everybody's, until a socket adopts it.
// The second flag cannot be given to a table that stands.
const (
	tableDormant = 1
	tableOwned   = 2 | 4 // the two flags; Linux 5.12 and 6.9
	tableOwner   = 7     // NFTA_TABLE_OWNER: the owner's port
)

// Ownable is an error if a Target with Config.Own would be none here.
func Ownable(netns int) error {
	c, err := dial(netns, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	f, b, called := newBoth()[0], &batch{}, "plumbline-"+rand.Text()
	b.newTable(f, called, tableOwned)
	b.removeTable(f, called)
	if err := c.send(b); errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) { // before 6.9; before 5.12
		return fmt.Errorf("tables that have an owner and outlive it need Linux 6.9 (NFT_TABLE_F_PERSIST): %w", err)
	} else if err != nil {
		return fmt.Errorf("try a table with an owner: %w", err)
	}
	return nil
}

// own makes this socket the owner of the tables that stand, where that is asked for. Once is
// enough for as long as it is open.
func (t *Target) own(b *batch) {
	if t.flags == 0 || t.conn.owns {
		return
	}
	t.conn.owns = true
	for _, f := range t.fam {
		if !f.v6 || t.lack == nil {
			b.table(f, t.flags)
		}
	}
}

// keep makes sure that the tables are this process's after a change: a refusal closes the socket.
func (t *Target) keep() error {
	if t.flags == 0 || t.conn != nil && t.conn.owns {
		return nil
	}
	p, err := t.begin()
	if err != nil {
		return err
	}
	return t.flush(p)
}

// explain says whose the tables are, if that is why the kernel refused a change of them.
func explain(err error, owners map[bool]uint32, own uint32) error {
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	for _, f := range newBoth() {
		if owner := owners[f.v6]; owner != 0 && owner != own {
			return fmt.Errorf("table %s %s is owned by another process, at netlink port %d (an agent that runs?): %w", f.text, TableName, owner, err)
		}
	}
	return err
}
