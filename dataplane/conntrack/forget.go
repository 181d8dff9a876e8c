package conntrack

import (
	"context"
	"fmt"
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
// with their next datagram; open TCP connections go on as they are.
func Forget(ctx context.Context, netns int, p *plan.Plan, translates bool) error {
	w := newWork(newTable(true))
	w.take(nil, p, time.Now())
	ask := map[filter]bool{}
	for k := range w.table.fronts {
		ask[filter{ipv6: k.IPv6, protocol: k.Protocol}] = true
	}
	k := &kernel{netns: netns, within: answerWithin}
	defer func() { _ = k.close() }()
	for q := range ask {
		var other []flow
		err := k.dump(ctx, q, true, func(f flow) {
			ends := f.protocol == objects.UDP || f.protocol == objects.TCP && translates
			if ends && (f.from != f.dst) != translates && w.table.find(place{f.protocol, f.dst}) != nil {
				other = append(other, f)
			}
		})
		if err != nil {
			return fmt.Errorf("forget flows: %w", err)
		}
		for _, f := range other {
			if _, err := k.remove(ctx, f); err != nil {
				return fmt.Errorf("forget flows: %w", err)
			}
		}
	}
	return nil
}
