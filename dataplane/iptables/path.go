package iptables

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Path is the way a packet to one frontend takes through the kernel's chains, as
// iptables-save prints them: of the chains all Services share only the rules
// that are for this frontend.
func Path(flavour Flavour, p *plan.Plan, key plan.Key, netns int) (string, error) {
	f, ok := plan.Index(p)[key]
	if !ok {
		return "", fmt.Errorf("show path: no frontend %s", key)
	}
	tool, err := newTool(exec.Command, flavour, netns)
	if err != nil {
		return "", fmt.Errorf("show path: %w", err)
	}
	m, err := tool.read(exec.Command, key.IPv6)
	if err != nil {
		return "", fmt.Errorf("show path: %w", err)
	}
	return fmt.Sprintf("%s %s (iptables, %s)\n", f.Kind, key, tool.flavour) + m.path(key), nil
}

func (m model) path(key plan.Key) string {
	w := walk{m: m, key: key, seen: map[chainID]bool{}}
	w.visit(natTable, "PREROUTING", "OUTPUT")
	w.visit(natTable, "POSTROUTING")
	w.visit(filterTable, "INPUT", "FORWARD", "OUTPUT")
	return w.out.String()
}

type walk struct {
	m    model
	key  plan.Key
	seen map[chainID]bool
	out  strings.Builder
}

// visit prints chains that have the same rules, and what their rules lead to.
func (w *walk) visit(table string, names ...string) {
	id := chainID{table, names[0]}
	c := w.m[id]
	if c == nil || w.seen[id] {
		return
	}
	w.seen[id] = true
	rules := slices.DeleteFunc(slices.Concat(c.rules, c.last), func(r rule) bool { return !w.concerns(id, r) })
	if len(rules) == 0 {
		return
	}
	fmt.Fprintf(&w.out, "%s %s\n", table, strings.Join(names, ", "))
	for _, r := range rules {
		fmt.Fprintf(&w.out, "  %s\n", r.text)
	}
	for _, r := range rules {
		if next := target(r.text); next != "" {
			w.visit(table, next)
		}
	}
}

// concerns tells whether a rule may see the frontend's packets.
func (w *walk) concerns(id chainID, r rule) bool {
	switch id.name {
	case services:
		return strings.HasPrefix(r.text, match(w.key)) && !w.key.IsWildcard() && !w.key.IsNodePort() ||
			w.key.IsNodePort() && target(r.text) == nodePorts
	case nodePorts, refusePorts:
		return w.key.IsNodePort() && strings.HasPrefix(r.text, match(w.key))
	case refuse:
		return !w.key.IsNodePort() && !w.key.IsWildcard() && strings.HasPrefix(r.text, match(w.key))
	case unclaimed:
		return w.key.IsWildcard() && strings.HasPrefix(r.text, match(w.key))
	}
	return true
}
