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
// that lead to them, of both flavours, each table in one transaction. Whose they are theirs
// tells. A chain that is in use elsewhere stays, with those that it leads to and with what
// stays asks for; the error names it, and all others are gone.
func Remove(netns int, theirs func(table, chain string) bool, asks map[string]string) error {
	var errs []error
	for _, flavour := range []Flavour{NFT, Legacy} {
		tool, err := newTool(exec.Command, flavour, netns)
		if err != nil {
			return fmt.Errorf("remove chains of iptables: %w", err)
		}
		for _, v6 := range tool.families {
			if err := tool.remove(v6, theirs, asks); err != nil {
				errs = append(errs, fmt.Errorf("remove chains of iptables (%s, %s): %w", flavour, family(v6), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (t *tool) remove(v6 bool, theirs func(table, chain string) bool, asks map[string]string) error {
	has, err := t.hasChains(v6, theirs)
	if err != nil || !has {
		return err
	}
	saved, err := t.save(exec.Command, v6)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range parseSaved(saved) {
		lines, used := s.without(func(chain string) bool { return theirs(s.table, chain) }, asks)
		if len(lines) > 0 {
			input := fmt.Sprintf("*%s\n%s\nCOMMIT\n", s.table, strings.Join(lines, "\n"))
			errs = append(errs, t.restore(exec.Command, v6, input))
		}
		for _, u := range used {
			errs = append(errs, fmt.Errorf("table %s: chain %s stays, since chain %s uses it", s.table, u.chain, u.by))
		}
	}
	return errors.Join(errs...)
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

// without is a script for what theirs tells of, and what cannot go.
func (s *saved) without(theirs func(string) bool, asks map[string]string) (lines []string, used []use) {
	stay := map[string]bool{}
	for _, r := range s.rules {
		if to := leadsTo(r.text); to != "" && theirs(to) && !theirs(r.chain) && !s.builtin[r.chain] && !stay[to] {
			stay[to], used = true, append(used, use{to, r.chain})
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
	var ends []string
	for _, chain := range slices.Sorted(maps.Keys(s.builtin)) {
		if goes(chain) {
			lines, ends = append(lines, ":"+chain+" - [0:0]"), append(ends, "-X "+chain)
		}
	}
	for _, r := range s.rules {
		if to := leadsTo(r.text); to != "" && goes(to) && !theirs(r.chain) {
			lines = append(lines, "-D "+r.chain+" "+r.text)
		}
	}
	return append(lines, ends...), used
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
