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
	at   map[elementID]int
	list []folded

	writes int            // elements deleted and added, at most
	bytes  int            // their size in messages, at most
	sets   map[setAt]bool // that are written to
}

// folded is an element before the first change and after the last.
type folded struct {
	id       elementID
	was, now string
	had, has bool
}

func newOps() *ops {
	return &ops{at: map[elementID]int{}, sets: map[setAt]bool{}}
}

// reset makes it as new.
func (o *ops) reset() {
	clear(o.at)
	clear(o.list) // its strings
	clear(o.sets)
	o.list, o.writes, o.bytes = o.list[:0], 0, 0
}

// fold finds an element's place, or makes one for an element that was there or
// was not.
func (o *ops) fold(e Element, had bool) *folded {
	o.count(e)
	i, known := o.at[e.id]
	if !known {
		i = len(o.list)
		o.at[e.id] = i
		o.list = append(o.list, folded{id: e.id, had: had})
		if had {
			o.list[i].was = e.val
		}
	}
	return &o.list[i]
}

func (o *ops) del(e Element) {
	f := o.fold(e, true)
	f.now, f.has = "", false
}

func (o *ops) add(e Element) {
	f := o.fold(e, false)
	f.now, f.has = e.val, true
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
	for _, e := range old {
		if _, left := before[e.id]; left {
			o.del(e)
		}
	}
}

// count adds a deletion or an addition: an element replaced is both. One taken
// back stays counted, which only splits a batch earlier.
func (o *ops) count(e Element) {
	const attr, flags, verdict = 4, 8, 16
	o.sets[setAt{e.id.v6, e.id.set}] = true
	o.writes++
	o.bytes += attr + flags + 2*attr + (len(e.id.key)+3)&^3
	if e.val != "" {
		o.bytes += 2*attr + (len(e.val)+3)&^3
	}
	switch {
	case e.id.set.isRules():
		o.bytes += verdict
	case e.id.set == setSources:
		o.bytes += 2 * attr
	}
}

// size bounds what write will put into a batch: the number of elements and their
// bytes, with the messages around them.
func (o *ops) size() (writes, bytes int) {
	const perList = 128 // of one message: headers, names of table and set
	lists := min(o.writes, 2*len(o.sets)+o.writes/perMessage)
	return o.writes, o.bytes + lists*perList
}

// lists are the deletions and additions, by family and set, in the order in which they came;
// those of intervals by address: the kernel takes a start before its end, and where two meet the
// end before the next start.
func (o *ops) lists() (dels, adds [][]Element) {
	dels, adds = make([][]Element, 2*setCount), make([][]Element, 2*setCount)
	for _, f := range o.list {
		if f.had && f.has && f.was == f.now {
			continue
		}
		at := f.id.place()
		if f.had {
			dels[at] = append(dels[at], Element{f.id, f.was})
		}
		if f.has {
			adds[at] = append(adds[at], Element{f.id, f.now})
		}
	}
	for _, list := range slices.Concat(dels, adds) {
		if len(list) > 0 && list[0].id.set.isInterval() {
			slices.SortFunc(list, compareIntervals)
		}
	}
	return dels, adds
}

// place numbers the sets of both families.
func (id elementID) place() int {
	if id.v6 {
		return int(id.set + setCount)
	}
	return int(id.set)
}

// compareElements orders by family and set, and intervals as lists does.
func compareElements(a, b Element) int {
	if c := cmp.Compare(a.id.place(), b.id.place()); c != 0 || !a.id.set.isInterval() {
		return c
	}
	return compareIntervals(a, b)
}

func compareIntervals(a, b Element) int {
	if c := cmp.Compare(a.id.key, b.id.key); c != 0 || a.id.end == b.id.end {
		return c
	}
	if a.id.end {
		return -1
	}
	return 1
}

// write puts the changes into a batch.
func (o *ops) write(fam *both, b *batch) {
	dels, adds := o.lists()
	all := func(typ uint16, lists [][]Element) {
		for _, list := range lists {
			if len(list) > 0 {
				b.elements(fam.of(list[0].id.v6), list[0].id.set, typ, list)
			}
		}
	}
	all(unix.NFT_MSG_DELSETELEM, dels)
	all(unix.NFT_MSG_NEWSETELEM, adds)
}
