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
// would go where conntrack sends it, past the rules. These are UDP flows, and TCP
// connections whose SYN nobody has answered: the next SYN is a new beginning. An open TCP
// connection of the other kind is left as it is.
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
			knocks := f.state == tcpSynSent || f.state == tcpSynSent2
			ends := f.protocol == objects.UDP || f.protocol == objects.TCP && knocks
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
