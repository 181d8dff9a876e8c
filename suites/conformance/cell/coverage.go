package cell

// Pair is two values of different dimensions, the earlier dimension's first.
type Pair [2]Value

// Coverage is what of a space is asked.
type Coverage struct {
	Cells, Asked      int // of the space
	Pairs, AskedPairs int // that some cell of the space has
	Missing           []Pair
}

// Cover counts which cells of a space, and which pairs of values, are among those asked. A
// pair is asked if one cell of the space with both values is.
func (s Space) Cover(asked map[Cell]bool) (out Coverage) {
	promised, have := map[Pair]bool{}, map[Pair]bool{}
	for _, c := range s.Cells() {
		out.Cells++
		if asked[c] {
			out.Asked++
		}
		for _, p := range c.pairs() {
			promised[p] = true
			have[p] = have[p] || asked[c]
		}
	}
	out.Pairs = len(promised)
	for p := range pairs {
		switch {
		case have[p]:
			out.AskedPairs++
		case promised[p]:
			out.Missing = append(out.Missing, p)
		}
	}
	return out
}

func (c Cell) pairs() (out []Pair) {
	for a := range c {
		for b := a + 1; b < len(c); b++ {
			out = append(out, Pair{c[a], c[b]})
		}
	}
	return out
}

// pairs yields each pair there is, in the order of dimensions and of their values.
func pairs(yield func(Pair) bool) {
	for a := range values {
		for b := a + 1; b < len(values); b++ {
			for _, v := range values[a] {
				for _, w := range values[b] {
					if !yield(Pair{v, w}) {
						return
					}
				}
			}
		}
	}
}
