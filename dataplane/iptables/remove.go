package iptables

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// Remove takes away chains that are somebody else's, and the rules of the kernel's own chains
// that lead to them, of both flavours: each table in one transaction, or a large one of nft in
// several, the ways to the chains first. Whose they are theirs tells.
//
// A chain that is in use elsewhere stays, with those that it leads to and with what stays asks
// for: asks has chains whose work another one ends, and a rule of somebody's in a chain of the
// kernel's that leads to one of them is such a use. stays has a line for each; all others are
// gone, but for those that an error tells of.
func Remove(netns int, theirs func(table, chain string) bool, asks map[string]string) (stays []string, err error) {
	var errs []error
	for _, flavour := range []Flavour{NFT, Legacy} {
		tool, err := newTool(exec.Command, flavour, netns)
		if err != nil {
			return stays, fmt.Errorf("remove chains of iptables: %w", err)
		}
		for _, v6 := range tool.families {
			kept, err := tool.remove(v6, theirs, asks)
			for _, k := range kept {
				stays = append(stays, fmt.Sprintf("%s (%s, %s)", k, flavour, family(v6)))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("remove chains of iptables (%s, %s): %w", flavour, family(v6), err))
			}
		}
	}
	return stays, errors.Join(errs...)
}

func (t *tool) remove(v6 bool, theirs func(table, chain string) bool, asks map[string]string) (stays []string, err error) {
	has, err := t.hasChains(v6, theirs)
	if err != nil || !has {
		return nil, err
	}
	saved, err := t.save(exec.Command, v6)
	if err != nil {
		return nil, err
	}
	var errs []error
	shown := map[string]bool{}
	for _, s := range parseSaved(saved) {
		shown[s.table] = true
		r := s.without(func(chain string) bool { return theirs(s.table, chain) }, asks)
		for _, part := range t.removalParts(r) {
			input := fmt.Sprintf("*%s\n%s\nCOMMIT\n", s.table, strings.Join(part, "\n"))
			if err := t.restore(exec.Command, v6, input); err != nil {
				errs = append(errs, err)
				break // the next ones want it
			}
		}
		for _, u := range r.used {
			stays = append(stays, fmt.Sprintf("chain %s of table %s stays, since chain %s uses it", u.chain, s.table, u.by))
		}
	}
	if t.flavour == NFT {
		unseen, err := t.unseen(v6, theirs, shown)
		stays, errs = append(stays, unseen...), append(errs, err)
	}
	return stays, errors.Join(errs...)
}

// removalParts are what is restored one after the other: all of it at once, unless that is so
// much that it would take long (the time that iptables-nft takes for it grows faster than it).
func (t *tool) removalParts(r removal) (parts [][]string) {
	all := slices.Concat(r.flush, r.ways, r.ends)
	switch {
	case len(all) == 0:
		return nil
	case t.flavour != NFT || len(all) <= largeScript:
		return [][]string{all}
	}
	if len(r.ways) > 0 {
		parts = append(parts, r.ways)
	}
	return slices.AppendSeq(slices.AppendSeq(parts, slices.Chunk(r.flush, batchLines)), slices.Chunk(r.ends, batchLines))
}

// unseen are tables with chains of theirs that iptables-save leaves out: one with rules of nft's
// own that it does not know (it says so in a comment, and ends well).
func (t *tool) unseen(v6 bool, theirs func(table, chain string) bool, shown map[string]bool) (out []string, err error) {
	all, err := chainsOfNFT(t.netns, v6)
	for _, id := range all {
		if !shown[id.table] && theirs(id.table, id.name) {
			shown[id.table] = true
			out = append(out, fmt.Sprintf("table %s is left out by %s, for a rule that iptables does not know: chain %s stays, and all others there", id.table, t.program(v6, "save"), id.name))
		}
	}
	return out, err
}

// hasChains tells it without a program where there are none: it may not be installed, and
// that of the legacy flavour makes the tables that it looks at.
func (t *tool) hasChains(v6 bool, theirs func(table, chain string) bool) (bool, error) {
	if t.flavour == Legacy {
		return t.hasLegacyTables(v6)
	}
	all, err := chainsOfNFT(t.netns, v6)
	return slices.ContainsFunc(all, func(id chainID) bool { return theirs(id.table, id.name) }), err
}

// saved is a table as iptables-save prints it.
type saved struct {
	table   string
	builtin map[string]bool // by chain
	rules   []savedRule
}

type savedRule struct{ chain, text string }

// use is a chain that another leads to.
type use struct{ chain, by string }

func parseSaved(text string) []*saved {
	var out []*saved
	var s *saved
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if table, ok := strings.CutPrefix(line, "*"); ok {
			s = &saved{table: table, builtin: map[string]bool{}}
			out = append(out, s)
		}
		if s == nil {
			continue
		}
		if chain, ok := strings.CutPrefix(line, ":"); ok {
			name, rest, _ := strings.Cut(chain, " ")
			s.builtin[name] = !strings.HasPrefix(rest, "-") // it has a policy
		}
		if rule, ok := strings.CutPrefix(line, "-A "); ok {
			chain, text, _ := strings.Cut(rule, " ")
			s.rules = append(s.rules, savedRule{chain, text})
		}
	}
	return out
}

// removal is what takes chains away, in lines of iptables-restore, and which are in use.
type removal struct {
	ways  []string // rules that lead to them
	flush []string
	ends  []string
	used  []use
}

// without takes away what theirs tells of, but for what cannot go.
func (s *saved) without(theirs func(string) bool, asks map[string]string) (out removal) {
	stay := map[string]bool{}
	for _, r := range s.rules {
		to := leadsTo(r.text)
		others := !theirs(r.chain) && (!s.builtin[r.chain] || asks[to] != "")
		if to != "" && theirs(to) && others && !stay[to] {
			stay[to], out.used = true, append(out.used, use{to, r.chain})
		}
	}
	for more := true; more; {
		more = false
		for _, to := range s.wanted(stay, asks) {
			if _, is := s.builtin[to]; is && theirs(to) && !stay[to] {
				stay[to], more = true, true
			}
		}
	}
	goes := func(chain string) bool { return theirs(chain) && !stay[chain] }
	for _, chain := range slices.Sorted(maps.Keys(s.builtin)) {
		if goes(chain) {
			out.flush, out.ends = append(out.flush, ":"+chain+" - [0:0]"), append(out.ends, "-X "+chain)
		}
	}
	for _, r := range s.rules {
		if to := leadsTo(r.text); to != "" && goes(to) && !theirs(r.chain) {
			out.ways = append(out.ways, "-D "+r.chain+" "+r.text)
		}
	}
	return out
}

// wanted are the chains that those which stay lead to or ask for.
func (s *saved) wanted(stay map[string]bool, asks map[string]string) (out []string) {
	for _, r := range s.rules {
		if to := leadsTo(r.text); stay[r.chain] && to != "" {
			out = append(out, to)
		}
	}
	for chain := range stay {
		out = append(out, asks[chain])
	}
	return out
}

// leadsTo is the target of a rule; empty: it has none. Comments are quoted, and may hold
// anything.
func leadsTo(text string) string {
	quoted, escaped := false, false
	fields := strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' && !escaped {
			quoted = !quoted
		}
		escaped = r == '\\' && !escaped
		return r == ' ' && !quoted
	})
	for i := len(fields) - 2; i >= 0; i-- {
		if fields[i] == "-j" || fields[i] == "-g" {
			return fields[i+1]
		}
	}
	return ""
}
