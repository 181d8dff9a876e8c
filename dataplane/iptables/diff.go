package iptables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// script is the input of one iptables-restore --noflush. Each section is a
// transaction of its own, in this order:
//
//	filter  what refuses more
//	nat     everything
//	filter  what refuses less
//
// The filter judges only what nat sent nowhere. So a refusal that comes first
// does nothing while nat still forwards, and one that goes last does nothing once
// nat forwards: in between, no packet gets through undecided.
type script struct {
	more, nat, less section
}

// section is the lines of one table, in the order they are written: chains made
// or emptied, chains emptied to end, rules, what leaves the bulk chains, the last
// rules of these anew, ends.
type section struct{ chains, flush, rules, gone, last, ends []line }

type line struct {
	text string
	of   plan.Key // the frontend the line is for, if it adds something
}

func (s *section) lines() []line {
	return slices.Concat(s.chains, s.flush, s.rules, s.gone, s.last, s.ends)
}

func (s *section) empty() bool { return len(s.lines()) == 0 }

func (s *script) empty() bool { return len(s.parts()) == 0 }

// part is a transaction of a script.
type part struct {
	table string
	*section
}

func (s *script) parts() []part {
	all := []part{{filterTable, &s.more}, {natTable, &s.nat}, {filterTable, &s.less}}
	return slices.DeleteFunc(all, func(p part) bool { return p.empty() })
}

// lines is the whole input.
func (s *script) lines() []line {
	var out []line
	for _, p := range s.parts() {
		out = append(out, line{text: "*" + p.table})
		out = append(out, p.lines()...)
		out = append(out, line{text: "COMMIT"})
	}
	return out
}

// committed are the parts that were in before the program stopped at a line,
// numbered from 1.
func (s *script) committed(at int) []part {
	var out []part
	for _, p := range s.parts() {
		at -= len(p.lines()) + 2
		if at <= 0 {
			break
		}
		out = append(out, p)
	}
	return out
}

// additions are what a script adds for some frontends, by itself: the rest can
// follow later.
func (s *script) additions(of func(plan.Key) bool) *script {
	out := &script{}
	pick := func(in []line) []line {
		var out []line
		for _, l := range in {
			if of(l.of) {
				out = append(out, l)
			}
		}
		return out
	}
	out.more.chains, out.more.rules = pick(s.more.chains), pick(s.more.rules)
	out.nat.chains, out.nat.rules = pick(s.nat.chains), pick(s.nat.rules)
	return out
}

// removals are what a script takes away, so many lines at a time: first the ways
// to the chains that end, then what is in them, then the chains.
func (s *script) removals(limit int) []*script {
	out := []*script{{nat: section{last: s.nat.last}, less: section{last: s.less.last}}}
	each := func(lines []line, to func(*script, []line)) {
		for part := range slices.Chunk(lines, limit) {
			piece := &script{}
			to(piece, part)
			out = append(out, piece)
		}
	}
	each(s.nat.gone, func(p *script, l []line) { p.nat.gone = l })
	each(s.less.gone, func(p *script, l []line) { p.less.gone = l })
	each(s.nat.flush, func(p *script, l []line) { p.nat.flush = l })
	each(s.less.flush, func(p *script, l []line) { p.less.flush = l })
	each(s.nat.ends, func(p *script, l []line) { p.nat.ends = l })
	each(s.less.ends, func(p *script, l []line) { p.less.ends = l })
	return out
}

// adds are the frontends a script adds something for, in order.
func (s *script) adds() []plan.Key {
	seen := map[plan.Key]bool{{}: true}
	var out []plan.Key
	for _, l := range slices.Concat(s.more.rules, s.nat.rules) {
		if !seen[l.of] {
			seen[l.of] = true
			out = append(out, l.of)
		}
	}
	slices.SortFunc(out, plan.Key.Compare)
	return out
}

func text(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.text)
		b.WriteByte('\n')
	}
	return b.String()
}

// sections of a table: where things are added, and where they are taken away.
func (s *script) of(table string) (more, less *section) {
	if table == natTable {
		return &s.nat, &s.nat
	}
	return &s.more, &s.less
}

// diff writes what turns one model into another, and nothing else.
func diff(have, want model) *script {
	s := &script{}
	for _, id := range want.ids() {
		more, less := s.of(id.table)
		old, new := have[id], want[id]
		switch {
		case id.bulk():
			if old == nil && !id.builtin() {
				more.declare(id.name, plan.Key{})
			}
			if old == nil {
				old = &chain{}
			}
			diffBulk(more, less, id.name, old, new)
		case old == nil || !slices.EqualFunc(old.rules, new.rules, sameText):
			more.rewrite(id.name, new)
		}
	}
	for _, id := range have.ids() {
		if _, less := s.of(id.table); want[id] == nil {
			less.end(id, have[id])
		}
	}
	return s
}

func sameText(a, b rule) bool { return a.text == b.text }

func (s *section) declare(name string, of plan.Key) {
	s.chains = append(s.chains, line{fmt.Sprintf(":%s - [0:0]", name), of})
}

func (s *section) rewrite(name string, c *chain) {
	var of plan.Key
	if len(c.rules) > 0 {
		of = c.rules[0].of
	}
	s.declare(name, of)
	for _, r := range c.rules {
		s.rules = append(s.rules, line{"-A " + name + " " + r.text, r.of})
	}
}

func (s *section) delete(name, text string) {
	s.gone = append(s.gone, line{text: "-D " + name + " " + text})
}

// end empties a chain and removes it, once nothing refers to it.
func (s *section) end(id chainID, c *chain) {
	if id.builtin() {
		for _, r := range slices.Concat(c.rules, c.last) {
			s.delete(id.name, r.text)
		}
		return
	}
	s.flush = append(s.flush, line{text: ":" + id.name + " - [0:0]"})
	s.ends = append(s.ends, line{text: "-X " + id.name})
}

// diffBulk inserts rules at the front, so that the last ones stay last; these
// are written anew if they are not as wanted. Among the others order means nothing.
func diffBulk(more, less *section, name string, old, new *chain) {
	left := map[string]int{}
	for _, r := range old.rules {
		left[r.text]++
	}
	for _, r := range new.rules {
		if left[r.text] > 0 {
			left[r.text]--
			continue
		}
		more.rules = append(more.rules, line{"-I " + name + " " + r.text, r.of})
	}
	for _, r := range old.rules {
		if left[r.text] > 0 {
			left[r.text]--
			less.delete(name, r.text)
		}
	}
	if slices.EqualFunc(old.last, new.last, sameText) {
		return
	}
	for _, r := range old.last {
		less.last = append(less.last, line{text: "-D " + name + " " + r.text})
	}
	for _, r := range new.last {
		less.last = append(less.last, line{text: "-A " + name + " " + r.text})
	}
}
