//go:build linux

package dptest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Golden compares the rendering of the cases that show rules with their files; update
// rewrites it. Whatever shape of rule any case leads to, one of these shows: that the others'
// rules are right is seen by packets, and that they are in the kernel by Dump.
func Golden(t *testing.T, dir string, b Backend, update bool) {
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, c := range cases {
		if !c.ShowsRules() {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			for _, s := range c.Steps {
				compareSection(t, c, s.Section(b.Section), b.Render(s.Plan()), update)
			}
		})
		for _, s := range c.Steps {
			for line := range strings.Lines(b.Render(s.Plan())) {
				shown[shape(line)] = true
			}
		}
	}
	for _, c := range cases {
		for _, s := range c.Steps {
			for line := range strings.Lines(b.Render(s.Plan())) {
				if s := shape(line); !shown[s] {
					t.Errorf("no case shows a rule as %q of case %s: let that one, by a section %s and -update", strings.TrimSpace(line), c.Name, b.Section)
					shown[s] = true // said
				}
			}
		}
	}
}

// shape is a line of a rendering without what is this or that object's.
func shape(line string) string {
	for _, r := range particulars {
		line = r.what.ReplaceAllString(line, r.as)
	}
	return line
}

// particulars are what lines of one shape may differ in: hashes in the names of chains,
// addresses (but for whether they are networks, and which family's), numbers.
var particulars = []struct { // const
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`-[A-Z2-7]{16}\b`), "-HASH"},
	{regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`), "IPv4"},
	{regexp.MustCompile(`\b[0-9a-f]{1,4}:[0-9a-f:]*`), "IPv6"},
	{regexp.MustCompile(`/[1-9]\d*`), "/BITS"},
	{regexp.MustCompile(`\b[1-9]\d*\b`), "N"},
}

func compareDump(t *testing.T, b Backend, fd int, want, when string) {
	t.Helper()
	if diff := diffDump(t, b, fd, want); diff != "" {
		t.Errorf("kernel %s (-want +got):\n%s", when, diff)
	}
}

func diffDump(t *testing.T, b Backend, fd int, want string) string {
	t.Helper()
	got, err := b.Dump(fd)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Diff(unordered(want), unordered(got))
}

// slotNumber is the last field of a slot's key. Which endpoint has which slot
// depends on history and means nothing; that the slots are 0..n-1 does.
var slotNumber = regexp.MustCompile(`^(\S+ \S+-slots .*) \. (\d+) : (.*)$`)

// unordered splits slots into the numbers used and the endpoints held.
func unordered(dump string) []string {
	var out []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(line, "\n")
		if m := slotNumber.FindStringSubmatch(line); m != nil {
			out = append(out, m[1]+" number "+m[2], m[1]+" holds "+m[3])
			continue
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
