package iptables

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Dump is what the kernel holds of ours, in the form of Render: read by the
// flavour that Auto stands for.
func Dump(netns int) (string, error) { return DumpFlavour(Auto, netns) }

// DumpFlavour is Dump of one flavour.
func DumpFlavour(flavour Flavour, netns int) (string, error) {
	tool, err := newTool(exec.Command, flavour, netns)
	if err != nil {
		return "", err
	}
	var out []string
	for _, v6 := range tool.families {
		m, err := tool.read(exec.Command, v6)
		if err != nil {
			return "", fmt.Errorf("dump iptables: %w", err)
		}
		out = append(out, m.lines(v6)...)
	}
	return strings.Join(out, ""), nil
}

// read is what the kernel holds of ours in one family.
func (t *tool) read(do command, v6 bool) (model, error) {
	saved, err := t.save(do, v6)
	if err != nil {
		return nil, err
	}
	return parse(saved), nil
}

// parse takes the chains of ours from iptables-save's output, and the rules of
// the kernel's own chains that lead to them.
func parse(saved string) model {
	m := model{}
	table := ""
	for line := range strings.Lines(saved) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = name
		}
		if table != natTable && table != filterTable {
			continue
		}
		if name, ok := strings.CutPrefix(line, ":"); ok {
			name, _, _ := strings.Cut(name, " ")
			if id := (chainID{table, name}); !id.builtin() {
				m.chain(table, name)
			}
			continue
		}
		rest, ok := strings.CutPrefix(line, "-A ")
		name, text, _ := strings.Cut(rest, " ")
		if !ok || (chainID{table, name}).builtin() && target(text) == "" {
			continue
		}
		c := m.chain(table, name)
		c.rules = append(c.rules, rule{text: text})
	}
	if c := m[chainID{natTable, services}]; c != nil {
		c.splitLast()
	}
	return m
}

// target is the chain of ours that a rule leads to, if it does.
func target(text string) string {
	fields := strings.Fields(text)
	for i, f := range fields[:max(0, len(fields)-1)] {
		if (f == "-j" || f == "-g") && strings.HasPrefix(fields[i+1], Prefix) {
			return fields[i+1]
		}
	}
	return ""
}

// splitLast sets the jumps to the node ports apart. Any that something follows
// counts as a rule that does not belong there.
func (c *chain) splitLast() {
	at := len(c.rules)
	for at > 0 && target(c.rules[at-1].text) == nodePorts {
		at--
	}
	c.last = slices.Clone(c.rules[at:])
	c.rules = c.rules[:at]
}
