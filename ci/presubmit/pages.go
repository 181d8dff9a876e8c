package presubmit

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Top are the folders of the tree.
var top = []string{".ci", ".github", "ci", "dataplane", "docs", "fixtures", "lbprovider", "suites", "tools"} // const

var (
	aLink = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)         // const
	aWord = regexp.MustCompile("`([^`\\s*{}<>=$]+/[^`\\s*{}<>=$]*)`") // const
)

// Pages holds a page to the tree: what it links to is there, and so is a file or folder that
// it names from the tree's top, between backticks. Of a package with a name after it
// (`suites/bench TestX`) the checklist's own test knows.
func Pages(name, text string, tree []string) []Finding {
	if path.Ext(name) != ".md" {
		return nil
	}
	var out []Finding
	lines := 0
	for line := range strings.Lines(text) {
		lines++
		miss := func(target string) {
			out = append(out, Finding{File: name, Line: lines, Text: "names " + target + ", which is not there"})
		}
		for _, m := range aLink.FindAllStringSubmatch(line, -1) {
			if target := path.Join(path.Dir(name), m[1]); !strings.Contains(m[1], "://") && !isThere(target, tree) {
				miss(m[1])
			}
		}
		for _, m := range aWord.FindAllStringSubmatch(line, -1) {
			first, _, _ := strings.Cut(m[1], "/")
			if slices.Contains(top, first) && !isThere(path.Clean(m[1]), tree) {
				miss(m[1])
			}
		}
	}
	return out
}

func isThere(target string, tree []string) bool {
	return target == "." || slices.ContainsFunc(tree, func(f string) bool { return f == target || strings.HasPrefix(f, target+"/") })
}
