package stage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What is built while a run goes on is not what it starts.
func TestKeptProgramsStay(t *testing.T) {
	bin := t.TempDir()
	build := func(text string) { // as the Go command does it
		for _, name := range ownPrograms() {
			path := filepath.Join(bin, name)
			if err := os.WriteFile(path+".new", []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
	}
	build("old")
	found, missing := programsIn(bin)
	if missing != nil {
		t.Fatal(missing)
	}
	kept, err := keep(found, filepath.Join(t.TempDir(), "kept"))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := copyProgram(found[echo], copied); err != nil {
		t.Fatal(err)
	}
	build("new")
	for _, path := range append(slices.Collect(maps.Values(kept)), copied) {
		text, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(text) != "old" || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %q, %v, %v %v", path, text, info, err, statErr)
		}
	}
}

// One program in the place of all is kept once, by all their names.
func TestSelfIsKeptOnce(t *testing.T) {
	self := filepath.Join(t.TempDir(), "plumbline")
	if err := os.WriteFile(self, []byte("all"), 0o755); err != nil {
		t.Fatal(err)
	}
	Self = self
	t.Cleanup(func() { Self = "" })
	kept, err := Programs(filepath.Join(t.TempDir(), "bin"))
	if err != nil || !slices.Equal(slices.Sorted(maps.Keys(kept)), slices.Sorted(slices.Values(ownPrograms()))) {
		t.Fatalf("%v, %v", kept, err)
	}
	first, err := os.Stat(kept[echo])
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range kept {
		info, err := os.Stat(path)
		if err != nil || !os.SameFile(info, first) || filepath.Base(path) != name {
			t.Errorf("%s is kept as %s: %v", name, path, err)
		}
	}
}
