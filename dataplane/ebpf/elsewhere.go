package ebpf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Elsewhere is a connection that somebody else on the node masquerades, as rules of netfilter do.
type Elsewhere struct {
	Protocol objects.Protocol
	Endpoint netip.AddrPort // who answers
	Source   netip.AddrPort // what the endpoint takes for its client: the node
	Closing  bool           // of TCP: one side has ended it
}

// keepOff lets no connection have a port that one elsewhere has to the same endpoint, whose answers it
// would get. Each of those has an entry that translates its answers to where they go anyway, and that
// lives as the others do, by the packets that come.
func (t *Target) keepOff(ctx context.Context, flows *ebpf.Map) error {
	if t.cfg.Elsewhere == nil {
		return nil
	}
	all, err := t.cfg.Elsewhere(ctx, t.cfg.SNATPorts)
	if err != nil {
		return fmt.Errorf("ask for connections that others masquerade: %w", err)
	}
	for _, c := range all {
		key := plumbFlowKey{
			Src: toAddr(c.Endpoint.Addr()), Sport: swapped(c.Endpoint.Port()),
			Dst: toAddr(c.Source.Addr()), Dport: swapped(c.Source.Port()), Proto: uint8(c.Protocol),
		}
		f := plumbFlow{Addr: key.Dst, Port: key.Dport, Other: key.Sport, Answer: 1, State: flowReplied | flowEstablished, Seen: uptime()}
		if c.Closing {
			f.State |= flowFINs
		}
		err := flows.Update(key, f, ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("write an entry of a connection of others: %w", err)
		}
	}
	if len(all) > 0 {
		t.log.Info("ports of connections that others masquerade are given to none", "connections", len(all))
	}
	return nil
}
