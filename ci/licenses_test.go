package ci

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write licenses.txt anew")

// isLicense matches the files that a copy of a module has to bring along.
var isLicense = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying|copyright|patents)([.-].*)?$`)

// licenses.txt has the text of every module that is compiled into a program, as go.mod
// names it.
func TestLicenses(t *testing.T) {
	want := licenses(t)
	if *update {
		if err := os.WriteFile("licenses.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, Licenses); d != "" {
		t.Errorf("licenses.txt is not that of go.mod (-want +got; -update writes it):\n%.2000s", d)
	}
}

// licenses gathers the texts: under each, the modules that state it.
func licenses(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "../tools/...")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the modules of the programs: %v", err)
	}
	by := map[string][]string{} // modules by text
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || seen[line] {
			continue
		}
		seen[line] = true
		module := fields[0] + " " + fields[1]
		entries, err := os.ReadDir(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !isLicense.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(fields[2], e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			found = true
			by[tidy(string(text))] = append(by[tidy(string(text))], module)
		}
		if !found {
			t.Errorf("%s has no licence that could be found", module)
		}
	}
	if len(by) < 10 {
		t.Fatalf("%d texts of %d modules: that cannot be all", len(by), len(seen))
	}
	var b strings.Builder
	for _, name := range []string{"NOTICE", "LICENSE"} {
		own, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(tidy(string(own)) + "\n")
	}
	b.WriteString("The programs are made of these modules besides.\n")
	for _, text := range slices.SortedFunc(maps.Keys(by), func(x, y string) int { return strings.Compare(by[x][0]+x, by[y][0]+y) }) {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(slices.Compact(slices.Sorted(slices.Values(by[text]))), "\n"), text)
	}
	return b.String()
}

// tidy leaves out what differs from copy to copy: ends of lines and of the text.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}
