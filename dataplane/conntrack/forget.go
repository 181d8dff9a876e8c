package conntrack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// Forget makes room for another way to serve the frontends of a plan, whose rules are in:
// it ends what conntrack holds that is not of that way. Backends translate by conntrack, or
// they take connections in themselves, untranslated; a packet of a flow of the other kind
// would go where conntrack sends it, past the rules, and so would a new flow from a port
// that an old one had.
//
// For who translates these are all untranslated flows: the process that had taken them in
// has ended. For who does not these are UDP flows that were translated, which begin anew
// with their next datagram; open TCP connections go on as they are. Where sockets are translated
// when they connect, that datagram of a socket of the node's own, which is connected already, would
// meet nobody: such a flow goes on too. After an error it may be called again: what it could end is
// ended.
func Forget(ctx context.Context, netns int, p *plan.Plan, translates bool) error {
	w := newWork(newTable(true))
	w.take(change{new: p}, time.Now())
	ask := map[filter]bool{}
	for k := range w.table.fronts {
		ask[filter{ipv6: k.IPv6, protocol: k.Protocol}] = true
	}
	k := &kernel{netns: netns, within: answerWithin}
	defer func() { _ = k.close() }()
	var failed []error
	for q := range ask {
		failed = append(failed, forget(ctx, k, q, func(f flow) bool {
			own := p.Node.Sockets && slices.Contains(p.Node.Addrs, f.src.Addr())
			ends := f.protocol == objects.UDP && !own || f.protocol == objects.TCP && translates
			return ends && (f.from != f.dst) != translates && w.table.find(place{f.protocol, f.dst}) != nil
		}))
	}
	return errors.Join(failed...)
}

// forget ends the flows of an answer that are not of our way, as many as it can.
func forget(ctx context.Context, k tracker, q filter, other func(flow) bool) error {
	var found []flow
	err := errInterrupted
	for try := 0; try < dumpTries && errors.Is(err, errInterrupted); try++ {
		found = nil
		err = k.dump(ctx, q, true, func(f flow) {
			if other(f) {
				found = append(found, f)
			}
		})
	}
	if err != nil {
		return fmt.Errorf("forget flows: %w", err)
	}
	var first error
	failed := 0
	for _, f := range found {
		if _, err := k.remove(ctx, f); err != nil {
			failed, first = failed+1, cmp.Or(first, err)
		}
	}
	switch {
	case failed > 1:
		return fmt.Errorf("forget flows: %w (and %d more)", first, failed-1)
	case failed == 1:
		return fmt.Errorf("forget flows: %w", first)
	}
	return nil
}
