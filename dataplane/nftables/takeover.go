package nftables

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// takeOver makes the tables those of the plan, whatever they hold.
func (t *Target) takeOver(p *plan.Plan) error {
	present, err := dump(t.netns)
	if err != nil {
		return fmt.Errorf("read back nftables: %w", err)
	}
	return t.takeOverFrom(p, present)
}

// takeOverFrom starts from what a dump showed. Tables that another version left
// with sets or chains of other types cannot be taken over; these alone are
// replaced. After any other error (somebody wrote to the tables since the dump,
// the kernel is out of memory) the rules in place are good ones: they stay, and
// the next Apply dumps again.
func (t *Target) takeOverFrom(p *plan.Plan, present *state) error {
	defer t.dropUnlessSynced()
	err := t.reconcile(p, present, false)
	if err != nil && len(present.tables) > 0 {
		if refusal := t.refusal(); refusal != nil {
			t.log.Warn("tables of an incompatible version cannot be taken over, replacing them", "err", refusal)
			err = t.reconcile(p, present, true)
		}
	}
	if err != nil {
		return fmt.Errorf("set up nftables: %w", err)
	}
	t.synced = true
	return nil
}

// refusal sends the constant part by itself, which changes nothing in tables that
// are ours, and returns the kernel's error if it says that what is there is of
// another kind.
func (t *Target) refusal() error {
	_ = t.Close() // errors of the failed batch may still wait there
	b := &batch{}
	t.constant(b)
	err := t.send(b, newOps())
	if err == nil {
		return nil
	}
	_ = t.Close()
	for _, kind := range []error{unix.EEXIST, unix.EINVAL, unix.EOPNOTSUPP, unix.EBUSY} {
		if errors.Is(err, kind) {
			return err
		}
	}
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
	if err := t.dial(); err != nil {
		return err
	}
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
