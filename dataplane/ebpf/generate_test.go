package ebpf

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/ci"
)

// The compiled programs are what their sources give, wherever just the compiler is that the
// repository names; elsewhere this says so and nothing is compared.
func TestGenerated(t *testing.T) {
	pins, err := ci.Pins()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("clang-19", "--version").Output()
	first, _, _ := strings.Cut(string(out), "\n")
	if err != nil || !strings.Contains(first+" ", " "+pins.Clang+" ") {
		t.Skipf("not compared: that takes clang %s, and here is %q (%v)", pins.Clang, first, err)
	}
	source, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, command := range strings.Split(string(source), "//go:generate ")[1:] {
		command, _, _ = strings.Cut(command, "\n")
		into := strings.Replace(command, "bpf2go ", "bpf2go -output-dir "+dir+" ", 1)
		if into == command {
			t.Fatalf("generate.go does not run bpf2go: %q", command)
		}
		if out, err := exec.Command("sh", "-c", into).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", into, err, out)
		}
	}
	for _, name := range []string{"plumb_bpfel.go", "plumb_bpfel.o", "socket_bpfel.go", "socket_bpfel.o"} {
		now, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if was, err := os.ReadFile(name); err != nil || !bytes.Equal(was, now) {
			t.Errorf("%s is not what the sources give (%v): make generate", name, err)
		}
	}
}
