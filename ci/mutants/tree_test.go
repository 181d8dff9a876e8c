package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline/plumbline/ci/compiled"
)

// patience is more than a busy host takes for tests that end at once.
const patience = 5 * time.Second

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module "+compiled.Module+"\n\ngo 1.26\n")
	write(t, "go.sum", "")
	for name, text := range files {
		write(t, name, text)
	}
}
