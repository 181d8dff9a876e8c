package ebpf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; the cost is that of their difference. A nil old stands for a state of the
// kernel that is not known: then new must be complete, the maps are read back once, only
// differences are written, and every device gets its programs.
//
// An error that wraps *plan.Refused names frontends that are not served, and every other one
// is as asked: a frontend that a full map refused is as it was. After any other error the
// state is unknown again; the next Apply must have a nil old.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused map[plan.Key]error
	var err error
	defer t.tell() // also of what was done before a failure
	switch {
	case old == nil:
		refused, err = t.takeOver(ctx, new)
	case !t.synced:
		err = errors.New("apply a difference: the state of the maps is not known")
	default:
		c := plan.Diff(old, new)
		if refused, err = t.change(c, nil); c.Node != nil { // by which links own pods come
			_, failed := t.mend(nil)
			err = errors.Join(err, failed)
		}
	}
	t.synced = err == nil
	if err != nil {
		return fmt.Errorf("apply to the maps: %w", err)
	}
	if t.cfg.ResetTCP > 0 && t.cfg.Cgroup != "" {
		t.named.follow(old, new, time.Now())
	}
	return t.refusals(new, refused)
}

// tell has connected UDP sockets looked at.
func (t *Target) tell() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// refusals adds the frontends of protocols that are not served.
func (t *Target) refusals(p *plan.Plan, refused map[plan.Key]error) error {
	for k := range plan.Index(p) {
		if !k.IsWildcard() && !served(k) {
			refused[k] = fmt.Errorf("the eBPF programs do not forward %s: %w", k.Protocol, errors.ErrUnsupported)
		}
	}
	if len(refused) > 0 {
		return &plan.Refused{Frontends: refused}
	}
	return nil
}

// takeOver makes the maps those of the plan, whatever they hold, and then attaches the programs:
// what was there before serves until then, and programs of a predecessor to the end.
func (t *Target) takeOver(ctx context.Context, p *plan.Plan) (map[plan.Key]error, error) {
	if err := t.start(); err != nil {
		return nil, err
	}
	t.refill()
	if err := t.repin(); err != nil { // no reason to serve what was asked for before
		t.log.Warn("what is at work here is not pinned: the next process will not find it", "err", err)
	}
	t.grace.settle()
	s, err := read(&t.objs.plumbMaps)
	if err != nil {
		return nil, err
	}
	if err := t.ledger.open(&t.objs.plumbMaps, s); err != nil {
		return nil, err
	}
	w := &writer{fault: t.cfg.Fault, grace: t.grace, ledger: t.ledger}
	table, orphans := adopt(&t.objs.plumbMaps, w, s)
	t.table, t.net = table, s.networks
	orphans.remove(w, &t.objs.plumbMaps, table.named(), true) // before anything wants their room
	if w.err != nil {
		return nil, w.err
	}
	want := plan.Index(p)
	c := plan.Changes{Node: &p.Node}
	for k := range table.fronts {
		if want[k] == nil {
			c.Gone = append(c.Gone, k)
		}
	}
	for a := range table.rest {
		if k := (plan.Key{IPv6: a.Is6(), Addr: a}); want[k] == nil {
			c.Gone = append(c.Gone, k)
		}
	}
	slices.SortFunc(c.Gone, plan.Key.Compare)
	for _, f := range want {
		c.Set = append(c.Set, f)
	}
	fresh, err := t.attachEmpty(p.Node)
	if err != nil {
		return nil, err
	}
	if fresh {
		c.Node = nil
		t.beside(ctx)
	}
	refused, err := t.change(c, plan.First(p))
	if err == nil && fresh { // what Services have is known before what none has is dropped
		err = t.setNode(p.Node)
	}
	if err != nil {
		return nil, err
	}
	for a := range s.classes { // those of frontends that are not there
		table.classify(a)
	}
	orphans.remove(w, &t.objs.plumbMaps, table.named(), false)
	if w.err != nil {
		return nil, w.err
	}
	if err := table.forgetTallies(); err != nil {
		return nil, err
	}
	_, err = t.attach(nil)
	return refused, err
}

// attachEmpty attaches the programs while there are no frontends, and they let everything pass, where none
// of a predecessor serves: who serves instead, such as rules of another backend, goes on until a frontend is
// in the maps, and then every device knows it. Attached one after the other to maps that are filled, the
// first would translate a connection whose answer the next does not know. fresh: it did so. What fails at a device is tried
// once more, and told, when the maps are the plan's.
func (t *Target) attachEmpty(n plan.Node) (fresh bool, err error) {
	t.mu.Lock()
	own := t.alone
	t.mu.Unlock()
	if own {
		return false, nil
	}
	serve, err := inLayouts(t.cfg.Pins, t.objs.hooks()[0].name+"_*")
	if err != nil || len(serve) > 0 {
		return false, err
	}
	n.ServiceCIDRs = nil // what no Service has is dropped later
	if err := t.setNode(n); err != nil {
		return true, err
	}
	if _, err := t.attach(nil); err != nil {
		t.log.Debug("not all programs are there before the frontends", "err", err)
	}
	return true, nil
}

// beside does what is due where rules of others were there first.
func (t *Target) beside(ctx context.Context) {
	if err := t.keepOff(ctx, t.objs.PlumbFlows); err != nil {
		t.log.Warn("connections that others masquerade may lose their port to one of these", "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.others = true
}

// change writes what differs, the node first, which stops no Service when it fails, and then the
// frontends of first. A frontend that a map has no room for is refused.
func (t *Target) change(c plan.Changes, first map[plan.Key]bool) (refused map[plan.Key]error, err error) {
	w := t.table.w
	refused = map[plan.Key]error{}
	if c.Node != nil {
		err = t.setNode(*c.Node)
	}
	for _, k := range c.Gone {
		t.table.gone(k)
	}
	// The rest of an address is refused when all its frontends are there.
	slices.SortFunc(c.Set, func(a, b *plan.Frontend) int {
		return cmp.Or(
			before(!a.Key.IsWildcard(), !b.Key.IsWildcard()),
			before(first[a.Key], first[b.Key]),
			a.Key.Compare(b.Key),
		)
	})
	for _, f := range c.Set {
		if !f.Key.IsWildcard() && !served(f.Key) {
			continue
		}
		if why := t.table.set(*f); why != nil {
			refused[f.Key] = why
		}
		if w.err != nil {
			break
		}
	}
	return refused, errors.Join(err, w.take())
}

// before compares two of which those come first that are something.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// setNode writes what is the node's own, but for its devices. What of it has no room is told, and
// is no error.
func (t *Target) setNode(n plan.Node) error {
	t.mu.Lock()
	t.links = n.LocalLink
	t.mu.Unlock()
	w := t.table.w
	t.setNetworks(networks(n))
	for _, a := range t.table.setNode(n.Addrs) {
		t.table.classify(a)
		w.err = t.roomless(w.err, "node address", a)
	}
	if w.err != nil {
		return w.take()
	}
	devs, err := t.seen(n.LocalLink, nil)
	if err != nil {
		return err
	}
	m, config := &t.objs.plumbMaps, t.config(n, devs)
	var there plumbConfig
	if err := m.PlumbConfig.Lookup(uint32(0), &there); err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	if there != config {
		put(w, m.PlumbConfig, uint32(0), config)
	}
	return w.take()
}

// setNetworks makes want what is there then: it lacks what has no room.
func (t *Target) setNetworks(want map[netip.Prefix]uint32) {
	m, w := t.objs.PlumbNetworks, t.table.w
	for p := range t.net { // first: it makes room
		if want[p] == 0 {
			drop(w, m, plumbNetworkKey{Bits: bits(p), Addr: toAddr(p.Addr())})
		}
	}
	for p, flags := range want {
		if was, had := t.net[p]; was != flags {
			write(w, m, plumbNetworkKey{Bits: bits(p), Addr: toAddr(p.Addr())}, flags, !had)
			if w.err != nil && had { // it is as it was
				want[p] = was
			} else if w.err != nil {
				delete(want, p)
			}
			w.err = t.roomless(w.err, "network", p)
		}
	}
	if w.err == nil {
		t.net = want
	}
}

func (t *Target) config(n plan.Node, devs []device) plumbConfig {
	c := plumbConfig{SnatLow: t.cfg.SNATPorts[0], SnatHigh: t.cfg.SNATPorts[1]}
	copy(c.LocalLink[:], n.LocalLink)
	if len(n.ServiceCIDRs) > 0 {
		c.Flags |= configServiceCIDRs
	}
	for _, a := range n.Addrs {
		if first := &c.Masquerade[family(a)]; *first == (plumbAddr{}) {
			*first = toAddr(a)
		}
	}
	for _, d := range devs {
		for f := range c.Masquerade {
			if c.Masquerade[f] == (plumbAddr{}) {
				c.Masquerade[f] = d.value.Masquerade[f]
			}
		}
	}
	return c
}
