package nftables

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// step is what one frontend is to become. The kernel takes a batch whole or not
// at all; steps are what it is divided into when one of them is refused.
type step struct {
	key  plan.Key
	want *plan.Frontend // nil: gone
}

// placed is a step in a batch, and what the mirror had.
type placed struct {
	step
	was  kernelFrontend
	held mirrored
}

// pending is a batch in the making, with what it takes to undo it in the mirror.
type pending struct {
	ahead   *batch // chains that are to be there before anything leads to them
	b       *batch
	o       *ops
	steps   []placed
	chains  []chainRef // new in the mirror
	claimed []Element  // taken from what a take-over found
}

// chainRef is a chain of a class or of a timeout, or the jump of a protocol.
type chainRef struct {
	v6       bool
	class    entry
	seconds  uint32
	learning objects.Protocol
}

// begin opens the connection: how much a batch may have is known from then on.
func (t *Target) begin() (*pending, error) {
	if err := t.dial(); err != nil {
		return nil, err
	}
	if t.ops == nil {
		t.ops = newOps()
	}
	t.ops.reset() // of the batch before
	p := &pending{ahead: &batch{}, b: &batch{}, o: t.ops}
	if t.head != nil {
		t.head(p.b, p.o)
	} else {
		t.own(p.b)
	}
	return p, nil
}

// run brings frontends to where they are to be, in as few batches as fit.
func (t *Target) run(steps []step) error {
	p, err := t.begin()
	if err != nil {
		return err
	}
	for _, s := range steps {
		t.place(p, s)
		if p, err = t.flushFull(p); err != nil {
			return err
		}
	}
	if t.tail != nil {
		t.tail(p.b)
	}
	return t.flush(p)
}

// batchElements is the number of elements written (deleted or added) at which a
// large change is split, between two frontends: each of them still changes as a
// whole.
const batchElements = 8000

// flushFull sends a batch that is to be split here, and begins the next.
func (t *Target) flushFull(p *pending) (*pending, error) {
	if !full(p.b, p.o, t.conn.room, t.replacing) && p.ahead.bytes() < t.conn.room/2 {
		return p, nil
	}
	if err := t.flush(p); err != nil {
		return nil, err
	}
	return t.begin()
}

// full tells whether a change is to be split here. Half of the room is kept for
// the frontend that was added last; one that wants more than was left is sent in
// halves, and in the end by itself (flush). While tables are replaced, the change
// is whole if it fits the socket.
func full(b *batch, o *ops, room int, whole bool) bool {
	writes, bytes := o.size()
	return !whole && writes >= batchElements || bytes+b.bytes() >= room/2
}

// flush sends a batch. If the kernel refuses something in it, the halves are
// sent, and so on until the frontend is found: all others are applied.
func (t *Target) flush(p *pending) error {
	err := t.send(p)
	if err == nil {
		t.head = nil
		return nil
	}
	if !isRefusal(err) || len(p.steps) == 0 {
		return err
	}
	_ = t.Close() // more errors of the batch may wait there
	t.tail = nil
	t.undo(p)
	n := len(p.steps)
	if n == 1 && t.head == nil {
		t.refused[p.steps[0].key] = err
		return nil
	}
	for _, half := range [][]placed{p.steps[:n/2], p.steps[n/2:]} {
		steps := make([]step, 0, len(half))
		for _, s := range half {
			steps = append(steps, s.step)
		}
		if err := t.run(steps); err != nil {
			return err
		}
	}
	return nil
}

// send writes new chains one commit before the elements that lead to them. A packet keeps
// the generation in which it entered a hook's rules, and each of its lookups reads that
// of the moment (nft_do_chain, nft_genmask_cur): led over a commit to a chain that is new
// in it, it finds the chain empty and goes on to the Service's address as it is.
func (t *Target) send(p *pending) error {
	if err := t.transact(p.ahead, newOps()); err != nil {
		return err
	}
	return t.transact(p.b, p.o)
}

// isRefusal tells errors that the content of a batch causes from those of the
// moment, and from those of a mirror that is not the kernel's state any more
// (an element that is not there, or is there already).
func isRefusal(err error) bool {
	for _, kind := range []error{errTooLarge, unix.EINVAL, unix.ERANGE, unix.ENOTEMPTY, unix.EOPNOTSUPP, unix.ENFILE, unix.ENOSPC, unix.E2BIG, unix.EOVERFLOW} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// transact is the only place that writes to the kernel.
func (t *Target) transact(b *batch, o *ops) error {
	o.write(t.fam, b)
	if b.empty() {
		return nil
	}
	if err := t.mayFail(); err != nil {
		return err
	}
	if err := t.dial(); err != nil {
		return err
	}
	if err := t.conn.send(b); err != nil {
		return err
	}
	return t.mayFail()
}

func (t *Target) mayFail() error {
	if t.fault == nil {
		return nil
	}
	return t.fault()
}

func (t *Target) dial() error {
	if t.conn != nil {
		return nil
	}
	c, err := dial(t.netns, t.port)
	if err != nil {
		return err
	}
	t.conn = c
	if t.replacing {
		if err := c.widenToReplace(); err != nil {
			return err
		}
	}
	if t.dialled != nil {
		t.dialled(c)
	}
	return nil
}

// place adds to a batch what changes for one frontend.
func (t *Target) place(p *pending, next step) {
	s := placed{step: next}
	s.held = t.fronts[s.key]
	s.was = s.held.frontend()
	p.steps = append(p.steps, s)
	now := t.put(p, s)
	if t.present != nil {
		var elems []Element
		if s.want != nil {
			elems = now.elements(nil)
		}
		t.adopt(p, s.key, elems)
		return
	}
	var old, new []Element
	if s.held.front != nil {
		old = s.was.elements(&now)
	}
	if s.want != nil {
		new = now.elements(&s.was)
	}
	p.o.replace(old, new)
	t.countHairpins(p.o, hairpins(s.was.Frontend, now.Frontend), hairpins(now.Frontend, s.was.Frontend))
}

// put brings the mirror of a frontend up to date.
func (t *Target) put(p *pending, s placed) kernelFrontend {
	if s.want == nil {
		delete(t.fronts, s.key)
		t.unjoin(s.was)
		return kernelFrontend{}
	}
	before := s.was.Frontend
	if t.present != nil {
		before = t.present.frontend(*s.want)
	}
	now := kernelFrontend{Frontend: plan.Settle(before, *s.want)}
	if remembers(now.Frontend) {
		now.group = t.groups.join(now.Group)
	}
	t.unjoin(s.was) // after joining, so that a number that stays is not given up
	t.fronts[s.key] = mirror(now, s.want)
	t.needChains(p, now)
	return now
}

func (t *Target) unjoin(f kernelFrontend) {
	if remembers(f.Frontend) {
		t.groups.leave(f.Group)
	}
}

// undo takes a batch that was not written back out of the mirror.
func (t *Target) undo(p *pending) {
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := p.steps[i]
		now := t.fronts[s.key].frontend()
		t.unjoin(now)
		if t.present == nil {
			t.countHairpins(newOps(), hairpins(now.Frontend, s.was.Frontend), hairpins(s.was.Frontend, now.Frontend))
		}
		if s.held.front == nil {
			delete(t.fronts, s.key)
			continue
		}
		if remembers(s.was.Frontend) {
			t.groups.reserve(s.was.Group, s.was.group)
			t.groups.join(s.was.Group)
		}
		t.fronts[s.key] = s.held
	}
	for _, w := range p.chains {
		delete(t.chains, w)
	}
	for _, e := range p.claimed {
		t.present.elements.put(e)
	}
}

// countHairpins keeps an element for every endpoint that may be the client of some frontend: it counts slots.
func (t *Target) countHairpins(o *ops, old, new []hairpin) {
	for _, h := range new {
		t.hairpins[h]++
		if t.hairpins[h] == 1 {
			o.add(hairpinElement(h))
		}
	}
	for _, h := range old {
		t.hairpins[h]--
		if t.hairpins[h] == 0 {
			delete(t.hairpins, h)
			o.del(hairpinElement(h))
		}
	}
}

// needChains adds the chains of classes and timeouts that no frontend had before, and
// the way to remember for a protocol that had none.
// They are never removed while the tables stand: there is one for each number of
// endpoints and each timeout ever seen, whatever the number of Services.
func (t *Target) needChains(p *pending, f kernelFrontend) {
	fam := t.fam.of(f.Key.IPv6)
	for _, e := range f.classes() {
		if w := (chainRef{v6: fam.v6, class: e}); !t.chains[w] {
			t.needChain(p, w, fam.classChain(e.class), e.view.classes(), e.class.bytes())
		}
	}
	if !remembers(f.Frontend) {
		return
	}
	if w := (chainRef{v6: fam.v6, seconds: seconds(f.Affinity)}); !t.chains[w] {
		t.needChain(p, w, fam.learnerChain(w.seconds), setLearners, numberBytes(w.seconds))
	}
	if w := (chainRef{v6: fam.v6, learning: f.Key.Protocol}); !t.chains[w] {
		t.lead(p, w, Element{elementID{v6: w.v6, set: setLearning, key: protocolBytes(w.learning)}, chainLearn})
	}
}

// needChain adds a chain and the element of a vmap that leads to it.
func (t *Target) needChain(p *pending, w chainRef, c chain, vmap setID, key string) {
	f := t.fam.of(w.v6)
	switch {
	case w.class.class == classReject || w.class.class == classDrop: // of every table, as its other constant chains
	case t.goesAhead(f, c):
		p.ahead.chain(f, c)
	case !t.present.holds(f, c):
		p.b.chain(f, c)
	}
	t.lead(p, w, Element{elementID{v6: w.v6, set: vmap, key: key}, c.name})
}

// goesAhead tells the chains that are new in tables that stand. What differs of a chain that is
// there changes with the elements that it looks up, as do tables that are made or brought up to
// date: their rules come alive with what they need.
func (t *Target) goesAhead(f family, c chain) bool {
	if t.present == nil {
		return true
	}
	_, there := t.present.chains[chainAt{f.v6, c.name}]
	return t.stands[f.v6] && !there
}

// lead adds an element of a vmap that leads to a chain.
func (t *Target) lead(p *pending, w chainRef, e Element) {
	t.chains[w] = true
	p.chains = append(p.chains, w)
	if t.present == nil {
		p.o.add(e)
		return
	}
	t.claim(p, e)
}
