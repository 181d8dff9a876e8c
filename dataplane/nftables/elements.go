package nftables

import "iter"

// elements are what the sets hold. Each set's are apart: sets are read side by side.
type elements map[setAt]ofSet

// ofSet is the data of one set's elements.
type ofSet map[elementKey]string

// elementKey tells the elements of one set apart.
type elementKey struct {
	key string
	end bool
}

func (id elementID) at() setAt      { return setAt{id.v6, id.set} }
func (id elementID) in() elementKey { return elementKey{id.key, id.end} }

func (e elements) get(id elementID) (val string, found bool) {
	val, found = e[id.at()][id.in()]
	return val, found
}

func (e elements) put(el Element) {
	at := el.id.at()
	if e[at] == nil {
		e[at] = ofSet{}
	}
	e[at][el.id.in()] = el.val
}

func (e elements) remove(id elementID) { delete(e[id.at()], id.in()) }

// of are the elements of some sets, of both families.
func (e elements) of(wanted func(setID) bool) iter.Seq[Element] {
	return func(yield func(Element) bool) {
		for at, all := range e {
			if !wanted(at.set) {
				continue
			}
			for k, val := range all {
				if !yield(Element{elementID{v6: at.v6, set: at.set, key: k.key, end: k.end}, val}) {
					return
				}
			}
		}
	}
}
