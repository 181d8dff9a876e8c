package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme: what the README shows is what a run prints on 80 columns.
func TestReadme(t *testing.T) {
	s, err := Read(filepath.Join("..", "run", "testdata", "kept-judged", SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Table(&b, s, Form{Width: 76}); err != nil {
		t.Fatal(err)
	}
	shown := strings.TrimRight("    "+strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "\n    "), " ")
	shown = strings.ReplaceAll(shown, "\n    \n", "\n\n")
	const file, before, after = "../../README.md", "## What you get\n\n", "\n\nand a page that draws each rollout"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), before)
	was, tail, also := strings.Cut(rest, after)
	if !found || !also {
		t.Fatal("README.md has another form")
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+before+shown+after+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != shown {
		t.Errorf("README.md shows\n%s\nwhere a run prints (-update rewrites it)\n%s", was, shown)
	}
}
