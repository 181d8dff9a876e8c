package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Config is what a Target needs.
type Config struct {
	Logger *slog.Logger
	// NetNS is the descriptor of the network namespace to work in; 0 is the
	// process's own.
	NetNS int
}

// Target keeps the two tables of one network namespace. It is not safe for
// concurrent use, and expects to be the only one that writes to its tables.
type Target struct {
	log   *slog.Logger // const after New
	netns int          // const after New

	conn *netlink.Conn // nil until needed, and after an error
	// The rest mirrors the kernel while synced is true.
	synced   bool
	node     []Element
	fronts   map[plan.Key]plan.Frontend // endpoints in the order of their slots
	hairpins map[netip.Addr]int         // frontends that may send to a local endpoint
	chains   map[familyClass]bool
}

type familyClass struct {
	v6    bool
	class class
}

// New makes a Target; nothing is opened or changed before Apply.
func New(cfg Config) *Target {
	return &Target{log: cfg.Logger, netns: cfg.NetNS}
}

// Apply brings the kernel from old to new. Both may be partial plans of the same
// Services; the cost is that of their difference. A nil old stands for a state
// of the kernel that is not known (start, or a failed Apply): then new must be
// complete, the tables are read back once, and only differences are written.
// Nothing is flushed, and connections keep their rules throughout.
//
// After an error the state is unknown again; the next Apply must have a nil old.
func (t *Target) Apply(ctx context.Context, old, new *plan.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if old == nil {
		return t.takeOver(new)
	}
	if !t.synced {
		return errors.New("apply a difference: the state of the tables is not known")
	}
	if err := t.change(plan.Diff(old, new)); err != nil {
		t.forget()
		return fmt.Errorf("change nftables: %w", err)
	}
	return nil
}

// Close frees the connection. The rules stay.
func (t *Target) Close() error {
	if t.conn == nil {
		return nil
	}
	err := t.conn.Close()
	t.conn = nil
	return err
}

func (t *Target) forget() {
	t.synced = false
	_ = t.Close() // a broken connection is not used again
}

// batchElements is the size at which a large change is split, between two
// frontends: each of them still changes as a whole.
const batchElements = 4000

func (t *Target) change(c plan.Changes) error {
	b, o := &batch{}, newOps()
	if c.Node != nil {
		node := nodeElements(*c.Node)
		o.replace(t.node, node)
		t.node = node
	}
	for _, key := range c.Gone {
		t.replaceFrontend(b, o, key, nil)
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	for _, f := range c.Set {
		t.replaceFrontend(b, o, f.Key, &f)
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	return t.send(b, o)
}

// replaceFrontend adds to a batch what changes for one frontend, nil for none.
func (t *Target) replaceFrontend(b *batch, o *ops, key plan.Key, f *plan.Frontend) {
	was, had := t.fronts[key]
	var old, elems []Element
	var oldPins, pins []netip.Addr
	if had {
		old, oldPins = frontendElements(was), hairpins(was)
	}
	if f == nil {
		delete(t.fronts, key)
	} else {
		settled := settleFrontend(was, *f)
		elems, pins = frontendElements(settled), hairpins(settled)
		t.fronts[key] = settled
		t.needClasses(b, settled)
	}
	o.replace(old, elems)
	t.countHairpins(o, oldPins, pins)
}

// countHairpins keeps an element for every local endpoint that some frontend uses.
func (t *Target) countHairpins(o *ops, old, new []netip.Addr) {
	for _, a := range new {
		t.hairpins[a]++
		if t.hairpins[a] == 1 {
			o.add(hairpinElement(a))
		}
	}
	for _, a := range old {
		t.hairpins[a]--
		if t.hairpins[a] == 0 {
			delete(t.hairpins, a)
			o.del(hairpinElement(a))
		}
	}
}

// needClasses adds the chains of classes that no frontend had before. They are
// never removed while the tables stand: there is one for each number of
// endpoints ever seen, whatever the number of Services.
func (t *Target) needClasses(b *batch, f plan.Frontend) {
	need := []class{classOf(outsideView(f.Key.Kind), f.Outside)}
	if f.Inside != nil {
		need = append(need, classOf(viewInside, *f.Inside))
	}
	for _, c := range need {
		if at := (familyClass{f.Key.IPv6, c}); !t.chains[at] {
			b.class(familyOf(f.Key.IPv6), c)
			t.chains[at] = true
		}
	}
}

func (t *Target) sendIfLarge(b **batch, o **ops) error {
	if (*o).len() < batchElements {
		return nil
	}
	err := t.send(*b, *o)
	*b, *o = &batch{}, newOps()
	return err
}

func (t *Target) send(b *batch, o *ops) error {
	o.write(b)
	if b.empty() {
		return nil
	}
	if err := t.dial(); err != nil {
		return err
	}
	return b.send(t.conn)
}

func (t *Target) dial() error {
	if t.conn != nil {
		return nil
	}
	conn, err := dial(t.netns)
	if err != nil {
		return err
	}
	t.conn = conn
	return nil
}

// socketBuffer has room for the largest batch and for the errors that may answer it.
const socketBuffer = 8 << 20

func dial(netns int) (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter socket: %w", err)
	}
	if err := errors.Join(conn.SetWriteBuffer(socketBuffer), conn.SetReadBuffer(socketBuffer)); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("enlarge netfilter socket: %w", err)
	}
	return conn, nil
}

// takeOver makes the tables those of the plan, whatever they hold. Tables that
// another version left with sets of other types cannot be taken over; they are
// replaced.
func (t *Target) takeOver(p *plan.Plan) error {
	defer t.dropUnlessSynced()
	present, err := dump(t.netns)
	if err != nil {
		return fmt.Errorf("read back nftables: %w", err)
	}
	err = t.reconcile(p, present, false)
	if err != nil && len(present.tables) > 0 {
		t.log.Warn("tables cannot be taken over, replacing them", "err", err)
		_ = t.Close()
		err = t.reconcile(p, present, true)
	}
	if err != nil {
		return fmt.Errorf("set up nftables: %w", err)
	}
	t.synced = true
	return nil
}

func (t *Target) dropUnlessSynced() {
	if !t.synced {
		t.forget()
	}
}

// reconcile writes the constant rules and every element that differs.
func (t *Target) reconcile(p *plan.Plan, present *state, replace bool) error {
	t.synced = false
	t.fronts = map[plan.Key]plan.Frontend{}
	t.hairpins = map[netip.Addr]int{}
	t.chains = map[familyClass]bool{}
	left := maps.Clone(present.elements)
	b, o := &batch{}, newOps()
	if replace {
		clear(left)
		for _, f := range present.tables {
			b.table(f, unix.NFT_MSG_DELTABLE)
		}
	}
	t.constant(b)
	t.node = nodeElements(p.Node)
	o.replace(take(left, setNodeAddrs, setLocalPods, setClusterPods), t.node)

	index := plan.Index(p)
	for _, key := range slices.SortedFunc(maps.Keys(index), plan.Key.Compare) {
		f := settleFrontend(present.frontend(index[key], left), index[key])
		t.fronts[key] = f
		t.needClasses(b, f)
		adopt(o, left, frontendElements(f))
		for _, a := range hairpins(f) {
			if t.hairpins[a]++; t.hairpins[a] == 1 {
				adopt(o, left, []Element{hairpinElement(a)})
			}
		}
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	return t.removeLeft(b, o, left)
}

// adopt adds what differs from the elements found, and takes it off their list.
func adopt(o *ops, left map[elementID]string, elems []Element) {
	for _, e := range elems {
		val, found := left[e.id]
		delete(left, e.id)
		if found && val == e.val {
			continue
		}
		if found {
			o.del(Element{e.id, val})
		}
		o.add(e)
	}
}

func take(left map[elementID]string, sets ...setID) []Element {
	var out []Element
	for id, val := range left {
		if slices.Contains(sets, id.set) {
			out = append(out, Element{id, val})
			delete(left, id)
		}
	}
	return out
}

func (t *Target) removeLeft(b *batch, o *ops, left map[elementID]string) error {
	var rest []Element
	for id, val := range left {
		rest = append(rest, Element{id, val})
	}
	slices.SortFunc(rest, compareElements)
	for _, e := range rest {
		o.del(e)
		if err := t.sendIfLarge(&b, &o); err != nil {
			return err
		}
	}
	return t.send(b, o)
}

// constant writes the part that does not depend on any Service. The chains are
// emptied and filled in the same batch, so no packet sees them in between.
func (t *Target) constant(b *batch) {
	for _, f := range families() {
		b.table(f, unix.NFT_MSG_NEWTABLE)
		for id := range setCount {
			b.set(f, id)
		}
		for _, c := range []class{classReject, classDrop} {
			b.class(f, c)
			t.chains[familyClass{f.v6, c}] = true
		}
		for _, c := range f.baseChains() {
			b.chain(f, c)
		}
	}
}
