package kit

import (
	"regexp"
	"strings"
)

var (
	nftBlock   = regexp.MustCompile(`^\s*(table|chain|map|set) (.+) \{$`) // const
	nftJump    = regexp.MustCompile(`\b(?:goto|jump) ([^\s,}]+)`)         // const
	savedTable = regexp.MustCompile(`^\*\w+$`)                            // const
	savedRule  = regexp.MustCompile(`^(?:\[\d+:\d+\] )?-A (\S+)`)         // const
	savedJump  = regexp.MustCompile(` (?:-j|-g) (\S+)`)                   // const
)

// ruleLine is a line of a listing of rules: of which table and block (indices of their first lines; -1:
// none), and the chain that it is in.
type ruleLine struct {
	table, block int
	chain        string
}

// rulesAbout is the part of a listing, as nft list or iptables-save print one, that is about something:
// the rules and elements that match, and the chains that these lead to, whole. Empty: nothing is.
func rulesAbout(text string, match func(string) bool) string {
	lines := strings.Split(text, "\n")
	at, chains := parseRules(lines)
	kept := map[int]bool{}
	var keep func(i int)
	keep = func(i int) {
		if kept[i] {
			return
		}
		kept[i] = true
		for _, jump := range []*regexp.Regexp{nftJump, savedJump} {
			for _, to := range jump.FindAllStringSubmatch(lines[i], -1) {
				for _, j := range chains[chainOf{at[i].table, to[1]}] {
					keep(j)
				}
			}
		}
	}
	for i := range lines {
		if at[i].table >= 0 && match(lines[i]) {
			keep(i)
		}
	}
	return printRules(lines, at, kept)
}

// chainOf is a chain of a table.
type chainOf struct {
	table int
	name  string
}

// parseRules says where lines are, and which make up a chain.
func parseRules(lines []string) ([]ruleLine, map[chainOf][]int) {
	at, chains := make([]ruleLine, len(lines)), map[chainOf][]int{}
	now := ruleLine{-1, -1, ""}
	for i, line := range lines {
		switch m := nftBlock.FindStringSubmatch(line); {
		case m != nil && m[1] == "table", savedTable.MatchString(line):
			now = ruleLine{i, -1, ""}
			at[i] = ruleLine{-1, -1, ""}
			continue
		case m != nil:
			now.block, now.chain = i, ""
			if m[1] == "chain" {
				now.chain = m[2]
			}
			at[i] = ruleLine{-1, -1, ""}
			continue
		case strings.TrimSpace(line) == "}":
			at[i] = ruleLine{-1, -1, ""}
			if now.block = -1; !strings.HasPrefix(line, "\t") {
				now.table = -1
			}
			now.chain = ""
			continue
		}
		at[i] = now
		if m := savedRule.FindStringSubmatch(line); m != nil {
			at[i].chain = m[1]
		}
		if at[i].chain != "" {
			key := chainOf{at[i].table, at[i].chain}
			chains[key] = append(chains[key], i)
		}
	}
	return at, chains
}

// printRules prints lines with the first and last of the blocks that they are in.
func printRules(lines []string, at []ruleLine, kept map[int]bool) string {
	var out strings.Builder
	now := ruleLine{-1, -1, ""}
	leave := func(next ruleLine) {
		if now.block >= 0 && (now.block != next.block) {
			out.WriteString("\t}\n")
		}
		if now.table >= 0 && now.table != next.table && strings.HasPrefix(lines[now.table], "table") {
			out.WriteString("}\n")
		}
	}
	for i, line := range lines {
		if !kept[i] {
			continue
		}
		next := at[i]
		leave(next)
		if next.table != now.table {
			out.WriteString(lines[next.table] + "\n")
		}
		if next.block >= 0 && next.block != now.block {
			out.WriteString(lines[next.block] + "\n")
		}
		out.WriteString(line + "\n")
		now = next
	}
	leave(ruleLine{-1, -1, ""})
	return out.String()
}
