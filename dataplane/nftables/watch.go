package nftables

import (
	"context"
	"fmt"

	"github.com/plumbline/plumbline/dataplane/commits"
)

// Watch calls lost whenever somebody else changes the tables: deletes or adds a
// table, chain, rule, set or element of ours, or flushes the rule set. It is
// called once for each such transaction, after it. The Target's own transactions
// do not count, and other tables are nobody's business. Watch runs until ctx ends
// or the socket fails; it may run beside Apply.
func (t *Target) Watch(ctx context.Context, lost func()) error {
	l, err := commits.Listen(t.netns, TableName)
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	defer l.Close()
	err = l.Except(t.port)
	if err == nil {
		err = l.Watch(ctx, func(uint32) bool { return false }, lost)
	}
	if err != nil {
		return fmt.Errorf("watch nftables: %w", err)
	}
	return nil
}
