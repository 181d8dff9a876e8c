package stage

import (
	"os"
	"path/filepath"
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
	p := programs{bin: bin, kubeProxy: "kube-proxy"}
	kept, err := p.keep(filepath.Join(t.TempDir(), "kept"))
	if err != nil || kept.kubeProxy != p.kubeProxy {
		t.Fatalf("%+v, %v", kept, err)
	}
	copied := filepath.Join(t.TempDir(), "copied")
	if err := copyProgram(p.own(echo), copied); err != nil {
		t.Fatal(err)
	}
	build("new")
	for _, path := range append([]string{copied}, kept.own("plumb-proxy"), kept.own("plumb-lb"), kept.own(echo), kept.own(probe)) {
		text, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(text) != "old" || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %q, %v, %v %v", path, text, info, err, statErr)
		}
	}
}
