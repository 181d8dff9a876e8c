package nftables

import (
	"errors"
	"fmt"
	"maps"
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
	defer t.endTakeOver()
	t.fam.by(p.Node.LocalLink)
	there := maps.Clone(present.tables)
	err := t.probe(there)
	t.without6.Store(t.lack != nil)
	if err == nil {
		err = t.reconcile(p, present, nil)
	}
	if err != nil && len(there) > 0 {
		if refusal := t.refusal(there); refusal != nil {
			t.log.Warn("tables of an incompatible version cannot be taken over, replacing them", "err", refusal)
			clear(t.refused)
			err = t.reconcile(p, newState(), there)
		}
	}
	if err != nil {
		return fmt.Errorf("set up nftables: %w", explain(err, present.owners, t.port))
	}
	t.synced = true
	return nil
}

// probe finds out whether the kernel has the family ip6 and its nat, which may be left out
// of it: it makes such a chain, and takes it away in the same transaction. Where a table stands it
// has.
func (t *Target) probe(there map[bool]bool) error {
	was := t.lack
	t.lack = nil
	if _, known := there[true]; known {
		return nil
	}
	b, f := &batch{}, t.fam.of(true)
	b.table(f, 0)
	b.chain(f, chain{name: "prerouting", hook: f.baseChains()[0].hook})
	b.removeTable(f, TableName)
	err := t.try(b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT): // the last: no such type of chain
		_ = t.Close()
		t.lack = err
		if was == nil {
			t.log.Warn("this kernel has no nftables for IPv6: only IPv4 Services are served", "err", err)
		}
		return nil
	}
	return err
}

func (t *Target) try(b *batch) error {
	if t.kernel != nil {
		if err := t.kernel(b); err != nil {
			return err
		}
	}
	return t.transact(b, newOps())
}

// refusal sends the constant part of tables that are there by itself, which changes nothing in
// those that are ours, and returns the kernel's error if it says that what is there is of
// another kind.
func (t *Target) refusal(there map[bool]bool) error {
	_ = t.Close() // errors of the failed batch may still wait there
	if err := t.dial(); err != nil {
		return nil // which says nothing of what is there
	}
	b, st := &batch{}, newState()
	st.tables = there
	t.own(b)
	t.constant(b, st)
	t.hooks(b, st)
	err := t.transact(b, newOps())
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

func (t *Target) endTakeOver() {
	t.present, t.replacing, t.tail = nil, false, nil
	t.ops = nil // it has grown
	if !t.synced {
		t.forget()
	}
}

// reconcile writes what differs: the tables, their sets and chains, every
// element, and last the chains with hooks. Where these are missing the rules
// come alive complete, in one transaction.
func (t *Target) reconcile(p *plan.Plan, present *state, replace map[bool]bool) error {
	t.synced = false
	t.present, t.replacing = present, replace != nil
	t.fronts = map[plan.Key]mirrored{}
	t.groups = newGroups()
	t.hairpins = map[hairpin]int{}
	t.chains = map[chainRef]bool{}
	index := plan.Index(p)
	keys := slices.SortedFunc(maps.Keys(index), plan.Key.Compare)
	steps := make([]step, 0, len(keys))
	for _, k := range keys {
		f := index[k]
		t.reserve(*f)
		steps = append(steps, step{key: k, want: f})
	}
	steps = t.possible(steps)
	t.setHead(p.Node, steps, replace)
	if t.replacing { // nothing serves between the old tables and these
		t.tail = func(b *batch) { t.hooks(b, present) }
	}
	if err := t.run(steps); err != nil {
		return err
	}
	return t.finish(steps)
}

// reserve keeps the number that the kernel has for a frontend's group.
func (t *Target) reserve(f plan.Frontend) {
	if !remembers(f) {
		return
	}
	at := elementID{v6: f.Key.IPv6, set: groupSet(f.Key.IsNodePort()), key: frontendKey(f.Key)}
	if val, _ := t.present.elements.get(at); len(val) == 4 {
		t.groups.reserve(f.Group, native32(val))
	}
}

// setHead prepares what goes before the frontends: tables, sets, constant chains,
// and the elements that frontends share.
func (t *Target) setHead(n plan.Node, steps []step, replace map[bool]bool) {
	t.node = t.ofKnownFamilies(nodeElements(n))
	shared := slices.Clone(t.node)
	for _, f := range t.fam {
		shared = append(shared, t.ofKnownFamilies(f.partElements())...)
	}
	for _, s := range steps {
		for _, h := range hairpins(*s.want, plan.Frontend{}) {
			if t.hairpins[h]++; t.hairpins[h] == 1 {
				shared = append(shared, hairpinElement(h))
			}
		}
	}
	shares := []setID{setNodeAddrs, setLocalPods, setServiceCIDRs, setHairpin, setHairpinInside,
		viewServices.parts(), viewServicesInside.parts(), viewNodePorts.parts(), viewNodePortsInside.parts()}
	if n.LocalLink != "" { // the rules there may ask for them until they are brought up to date: finish
		shares = slices.DeleteFunc(shares, func(id setID) bool { return id == setLocalPods })
	}
	was := t.present.take(shares...)
	known := *t.present // claims change what it holds, not which chains and sets there are
	t.stands = map[bool]bool{}
	for _, f := range t.fam {
		missing := &batch{}
		f.constant(missing, &known, t.flags)
		t.stands[f.v6] = missing.empty()
	}
	t.head = func(b *batch, o *ops) {
		for v6 := range replace {
			b.removeTable(t.fam.of(v6), TableName)
		}
		if len(replace) == 0 {
			t.own(b)
		}
		t.constant(b, &known)
		o.replace(was, shared)
	}
}

// constant writes what is not as it should be of the families that the kernel has.
func (t *Target) constant(b *batch, present *state) {
	for _, f := range t.fam {
		if !f.v6 || t.lack == nil {
			f.constant(b, present, t.flags)
		}
	}
}

// constant writes the table, those sets and those plain chains that are not as they should be.
func (f family) constant(b *batch, present *state, flags uint32) {
	if !present.tables[f.v6] {
		b.table(f, flags)
	}
	for id := range setCount {
		if present.sets[setAt{f.v6, id}] != f.sets[id].shape() {
			b.set(f, id)
		}
	}
	for _, c := range f.plainChains() {
		if !present.holds(f, c) {
			b.chain(f, c)
		}
	}
}

// hooks writes those base chains that are not as they should be, and removes
// base chains that somebody else made in our tables.
func (t *Target) hooks(b *batch, present *state) {
	for _, f := range t.fam {
		if f.v6 && t.lack != nil {
			continue
		}
		ours := map[string]bool{}
		for _, c := range f.baseChains() {
			ours[c.name] = true
			if !present.holds(f, c) {
				b.chain(f, c)
			}
		}
		for at, st := range present.chains {
			if at.v6 == f.v6 && st.hook != (hook{}) && !ours[at.name] {
				b.removeChain(f, at.name)
			}
		}
	}
}

// adopt adds what differs from the elements found. Ranges must not overlap even
// for a moment, so a frontend's old ones go in the same batch.
func (t *Target) adopt(p *pending, key plan.Key, elems []Element) {
	if ranges := t.present.ranges(key); len(ranges) > 0 {
		for _, e := range ranges {
			if !slices.Contains(elems, e) {
				t.present.elements.remove(e.id)
				p.claimed = append(p.claimed, e)
				p.o.del(e)
			}
		}
	}
	for _, e := range elems {
		t.claim(p, e)
	}
}

// claim takes an element off what was found, and adds it if it differs.
func (t *Target) claim(p *pending, e Element) {
	val, found := t.present.elements.get(e.id)
	if found {
		t.present.elements.remove(e.id)
		p.claimed = append(p.claimed, Element{e.id, val})
		if val == e.val {
			return
		}
		p.o.del(Element{e.id, val})
	}
	p.o.add(e)
}

// take removes all elements of some sets and returns them.
func (s *state) take(sets ...setID) []Element {
	out := slices.Collect(s.elements.of(func(id setID) bool { return slices.Contains(sets, id) }))
	for _, e := range out {
		s.elements.remove(e.id)
	}
	return out
}

// ranges are the source ranges found for a frontend.
func (s *state) ranges(k plan.Key) []Element {
	if s.sources == nil {
		s.sources = map[elementID][]Element{}
		for e := range s.elements.of(func(id setID) bool { return id == setSources }) {
			at := elementID{v6: e.id.v6, set: setRestricted, key: sourceOwner(e.id)}
			s.sources[at] = append(s.sources[at], e)
		}
	}
	if len(s.sources) == 0 || k.IsNodePort() {
		return nil
	}
	return s.sources[elementID{v6: k.IPv6, set: setRestricted, key: frontendKey(k)}]
}

// sourceOwner is the key of the frontend that a source range belongs to.
func sourceOwner(id elementID) string {
	addr := 4
	if id.v6 {
		addr = 16
	}
	return id.key[:max(0, len(id.key)/2-addr)]
}

// finish removes what nobody claimed and brings the hooks up to date. Local pods that rules
// have asked for until now go one commit later: of a packet that has entered by the old rules
// each lookup reads the set of its moment.
func (t *Target) finish(steps []step) error {
	pods := t.present.take(setLocalPods)
	rest := slices.SortedFunc(t.present.elements.of(setID.isPlan), compareElements)
	p, err := t.begin()
	if err != nil {
		return err
	}
	for _, e := range rest {
		p.o.del(e)
		if p, err = t.flushFull(p); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if t.refused[s.key] != nil {
			t.countHairpins(p.o, hairpins(*s.want, plan.Frontend{}), nil)
		}
	}
	if t.tail == nil {
		t.hooks(p.b, t.present)
	}
	if err := t.flush(p); err != nil || len(pods) == 0 {
		return err
	}
	if p, err = t.begin(); err != nil {
		return err
	}
	for _, e := range pods {
		p.o.del(e)
	}
	return t.flush(p)
}
