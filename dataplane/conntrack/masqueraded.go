package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Masqueraded is a flow whose source a rule has replaced.
type Masqueraded struct {
	Protocol objects.Protocol
	Endpoint netip.AddrPort // who answers
	Source   netip.AddrPort // what the endpoint takes for its client
	Closing  bool           // TCP that at least one side has ended
}

// MasqueradedBy returns the flows of TCP and UDP in the network namespace with this descriptor (0: the
// process's own) whose source was replaced by one with a port from first to last. The kernel walks its whole
// table for each family.
func MasqueradedBy(ctx context.Context, netns int, first, last uint16) ([]Masqueraded, error) {
	k := &kernel{netns: netns, within: answerWithin}
	defer func() { _ = k.close() }() // it only read
	var out []Masqueraded
	for _, ipv6 := range []bool{false, true} {
		all := map[Masqueraded]bool{} // one may be in two answers
		err := errInterrupted
		for try := 0; try < dumpTries && errors.Is(err, errInterrupted); try++ { // what was heard before is true, too
			err = k.dump(ctx, filter{ipv6: ipv6, protocol: objects.TCP}, true, func(f flow) {
				if m, ok := f.masqueraded(); ok && first <= m.Source.Port() && m.Source.Port() <= last {
					all[m] = true
				}
			})
		}
		if err != nil && !errors.Is(err, errInterrupted) {
			return nil, fmt.Errorf("look for masqueraded flows: %w", err)
		}
		for m := range all {
			out = append(out, m)
		}
	}
	return out, nil
}

func (f flow) masqueraded() (Masqueraded, bool) {
	known := f.protocol == objects.TCP || f.protocol == objects.UDP
	closing := f.protocol == objects.TCP && f.state > tcpEstablished && f.state != tcpSynSent2
	return Masqueraded{f.protocol, f.from, f.back, closing}, known && f.back != f.src
}
