package render

import (
	"strings"
	"unicode"
)

// Text has no control characters and no line ends.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
}

// Line is Text for what errors.Join or a person spread over lines: what stood on
// lines of its own is parted by semicolons.
func Line(s string) string {
	var parts []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(Text(line)); line != "" {
			parts = append(parts, line)
		}
	}
	return strings.Join(parts, "; ")
}

// Lines is Text, and keeps line ends and what tabs align.
func Lines(s string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\t", "    "), "\n"), "\n")
	for i, l := range lines {
		lines[i] = Text(l)
	}
	return strings.Join(lines, "\n")
}
