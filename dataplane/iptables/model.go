package iptables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// model is the chains of one family, or some of them.
type model map[chainID]*chain

type chainID struct{ table, name string }

// The tables, and the order they are written in (see script).
const (
	natTable    = "nat"
	filterTable = "filter"
)

func compareIDs(a, b chainID) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name))
}

// builtin tells whether a chain is the kernel's: of it only our jumps count.
func (id chainID) builtin() bool { return !strings.HasPrefix(id.name, Prefix) }

// bulk chains have one rule for each frontend, in any order. They are never
// rewritten: single rules come and go. All others are rewritten as a whole.
func (id chainID) bulk() bool {
	return id.builtin() || slices.Contains([]string{services, nodePorts, refuse, refusePorts, unclaimed, health}, id.name)
}

// chain is a chain's rules in order. Of a bulk chain, last are the ones that
// come after all others.
type chain struct {
	rules []rule
	last  []rule
}

// rule is the text that follows "-A CHAIN ", and the frontend it is for.
type rule struct {
	text string
	of   plan.Key
}

func (c *chain) add(of plan.Key, parts ...string) {
	c.rules = append(c.rules, rule{strings.Join(parts, ""), of})
}

func (m model) chain(table, name string) *chain {
	id := chainID{table, name}
	if m[id] == nil {
		m[id] = &chain{}
	}
	return m[id]
}

func (m model) ids() []chainID {
	out := make([]chainID, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	slices.SortFunc(out, compareIDs)
	return out
}

// lines is every rule of a model as text, without those that are always there.
// Rules of bulk chains are sorted, others numbered.
func (m model) lines(v6 bool) []string {
	constant := baseModel(v6, plan.Node{}, DefaultMark)
	var out []string
	for _, id := range m.ids() {
		c, always := m[id], constant[id]
		isAlways := func(r rule) bool {
			return always != nil && slices.ContainsFunc(always.rules, func(a rule) bool { return a.text == r.text })
		}
		at := fmt.Sprintf("%s %s %s", family(v6), id.table, id.name)
		var lines []string
		for i, r := range c.rules {
			if isAlways(r) {
				continue
			}
			if id.bulk() {
				lines = append(lines, fmt.Sprintf("%s %s\n", at, r.text))
			} else {
				lines = append(lines, fmt.Sprintf("%s %d %s\n", at, i+1, r.text))
			}
		}
		if id.bulk() {
			slices.Sort(lines)
		}
		for _, r := range c.last {
			lines = append(lines, fmt.Sprintf("%s last %s\n", at, r.text))
		}
		if len(c.rules) == 0 && !id.bulk() {
			lines = append(lines, at+" is empty\n")
		}
		out = append(out, lines...)
	}
	return out
}

func family(v6 bool) string {
	if v6 {
		return "ip6"
	}
	return "ip"
}
