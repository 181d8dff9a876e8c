package nftables

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// ops folds a sequence of changes to elements into what one batch may contain:
// each element is deleted at most once and added at most once, deletions first.
// An element given back and taken again (a key that passes from one Service to
// another in the same change) comes out as the difference, or as nothing.
type ops struct {
	was map[elementID]*string // before the first change; nil: absent
	now map[elementID]*string

	writes int // elements deleted and added, at most
	bytes  int // their size in messages, at most
}

func newOps() *ops {
	return &ops{was: map[elementID]*string{}, now: map[elementID]*string{}}
}

func (o *ops) del(e Element) {
	if _, known := o.was[e.id]; !known {
		o.was[e.id] = &e.val
	}
	o.now[e.id] = nil
	o.count(e)
}

func (o *ops) add(e Element) {
	if _, known := o.was[e.id]; !known {
		o.was[e.id] = nil
	}
	o.now[e.id] = &e.val
	o.count(e)
}

// replace goes from one list of elements to another.
func (o *ops) replace(old, new []Element) {
	before := make(map[elementID]string, len(old))
	for _, e := range old {
		before[e.id] = e.val
	}
	for _, e := range new {
		val, had := before[e.id]
		delete(before, e.id)
		switch {
		case had && val == e.val:
		case had:
			o.del(Element{e.id, val})
			o.add(e)
		default:
			o.add(e)
		}
	}
	for id, val := range before {
		o.del(Element{id, val})
	}
}

// count adds a deletion or an addition: an element replaced is both. One taken
// back stays counted, which only splits a batch earlier.
func (o *ops) count(e Element) {
	const attr, flags = 4, 8
	o.writes++
	o.bytes += attr + flags + 2*attr + (len(e.id.key)+3)&^3
	if e.val != "" {
		o.bytes += 2*attr + (len(e.val)+3)&^3
	}
}

// size bounds what write will put into a batch: the number of elements and their
// bytes, with the messages around them.
func (o *ops) size() (writes, bytes int) {
	const perList = 128 // of one message: headers, names of table and set
	lists := min(o.writes, int(setCount)*4+o.writes/perMessage)
	return o.writes, o.bytes + lists*perList
}

// lists are the deletions and additions, sorted, so that a batch is the same
// for the same change.
func (o *ops) lists() (dels, adds []Element) {
	for id, was := range o.was {
		now := o.now[id]
		if was != nil && now != nil && *was == *now {
			continue
		}
		if was != nil {
			dels = append(dels, Element{id, *was})
		}
		if now != nil {
			adds = append(adds, Element{id, *now})
		}
	}
	slices.SortFunc(dels, compareElements)
	slices.SortFunc(adds, compareElements)
	return dels, adds
}

func compareElements(a, b Element) int {
	v6 := func(e Element) int {
		if e.id.v6 {
			return 1
		}
		return 0
	}
	end := func(e Element) int { // an interval's end at an address goes before a start there
		if e.id.end {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(v6(a), v6(b)), cmp.Compare(a.id.set, b.id.set), cmp.Compare(a.id.key, b.id.key), cmp.Compare(end(a), end(b)))
}

// write puts the changes into a batch.
func (o *ops) write(b *batch) {
	dels, adds := o.lists()
	bySet(dels, func(f family, id setID, part []Element) { b.elements(f, id, unix.NFT_MSG_DELSETELEM, part) })
	bySet(adds, func(f family, id setID, part []Element) { b.elements(f, id, unix.NFT_MSG_NEWSETELEM, part) })
}

func bySet(sorted []Element, do func(family, setID, []Element)) {
	for len(sorted) > 0 {
		first := sorted[0].id
		n := slices.IndexFunc(sorted, func(e Element) bool { return e.id.set != first.set || e.id.v6 != first.v6 })
		if n < 0 {
			n = len(sorted)
		}
		do(familyOf(first.v6), first.set, sorted[:n])
		sorted = sorted[n:]
	}
}
