package report

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What keeps one file of a report from being written is said once, with the file's own name; the
// others are written.
func TestWriteTogether(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{JUnitFile, HTMLFile, TraceFile} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := Write(dir, sample())
	want := "write the report: " + filepath.Join(dir, JUnitFile) + ": file exists (and 2 more of its files)"
	if err == nil || err.Error() != want || !errors.Is(err, os.ErrExist) {
		t.Errorf("%v, want %s", err, want)
	}
	for _, name := range []string{SummaryFile, MarkdownFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
