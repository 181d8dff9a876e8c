package iptables

import (
	"slices"
	"strings"
)

// replay does to a model what a transaction does to the kernel.
func (m model) replay(p part) {
	for _, l := range slices.Concat(p.chains, p.flush) {
		name, _, _ := strings.Cut(strings.TrimPrefix(l.text, ":"), " ")
		m[chainID{p.table, name}] = &chain{}
	}
	for _, l := range slices.Concat(p.rules, p.gone, p.last, p.ends) {
		op, rest, _ := strings.Cut(l.text, " ")
		name, text, _ := strings.Cut(rest, " ")
		id := chainID{p.table, name}
		if op == "-X" {
			delete(m, id)
			continue
		}
		m.chain(id.table, id.name).replay(id, op, rule{text, l.of})
	}
}

// replay of a rule. Where one is inserted in a bulk chain means nothing; what is
// appended there comes last.
func (c *chain) replay(id chainID, op string, r rule) {
	is := func(o rule) bool { return sameText(o, r) }
	switch {
	case op == "-A" && id.bulk():
		c.last = append(c.last, r)
	case op == "-A" || op == "-I":
		c.rules = append(c.rules, r)
	default:
		at := &c.rules
		if !slices.ContainsFunc(c.rules, is) {
			at = &c.last
		}
		if i := slices.IndexFunc(*at, is); i >= 0 {
			*at = slices.Delete(*at, i, i+1)
		}
	}
}
