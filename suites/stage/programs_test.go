package stage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/need"
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

// One program in the place of all is kept once, by all their names, also on another disk.
func TestSelfIsKeptOnce(t *testing.T) {
	need.Root(t)
	self := filepath.Join(t.TempDir(), "plumbline")
	if err := os.WriteFile(self, []byte("all"), 0o755); err != nil {
		t.Fatal(err)
	}
	Self = self
	t.Cleanup(func() { Self = "" })
	found, err := findOwn()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := keep(found, filepath.Join(tmpfs(t, 0), "bin"))
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

// tmpfs is a small disk of its own until the test ends.
func tmpfs(t *testing.T, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A run whose folder executes nothing has its programs where temporary files are.
func TestProgramsWhereTheyCanRun(t *testing.T) {
	need.Root(t)
	execs, not := tmpfs(t, 0), tmpfs(t, unix.MS_NOEXEC)
	for _, c := range []struct{ state, temp, want, err string }{
		{execs, not, "runs", ""}, {not, execs, "plumbline-", ""}, {not, not, "", "set TMPDIR"},
	} {
		t.Setenv("TMPDIR", c.temp)
		run, err := host.BeginRun(t.Context(), c.state, "x")
		if err != nil {
			t.Fatal(err)
		}
		dir, err := binDir(run)
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || !strings.Contains(dir, c.want) || noExec(filepath.Dir(dir))) {
			t.Errorf("%q, %v; want %q, %q", dir, err, c.want, c.err)
		}
		if err := run.End(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What needs libraries is no program for an image.
func TestStandsAlone(t *testing.T) {
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := standsAlone(map[string]string{echo: sh}); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("of /bin/sh: %v", err)
	}
	if err := standsAlone(map[string]string{echo: os.Args[0]}); err != nil && os.Getenv("CGO_ENABLED") == "0" {
		t.Errorf("of this: %v", err)
	}
}
