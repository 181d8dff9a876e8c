package instance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

// A master executes itself anew right after its start, and for a moment has no command line.
// It is found all the same.
func TestFoundWhileItExecutes(t *testing.T) {
	// A command line that a reader with a small buffer takes in parts.
	state := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	if err := os.Mkdir(state, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, NamePrefix+"0123456789ab")
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(state, "haproxy")
	if err := os.WriteFile(program, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	const script = `N=$((N+1)); export N; [ $N -lt 3000 ] || exit 0; exec "$0" -c "$SCRIPT" "$0" "$@"`
	c := exec.Command(program, append([]string{"-c", script, program}, command(dir)...)...)
	c.Env = []string{"SCRIPT=" + script, "N=0"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	looks, missed := 0, 0
	for ; missed == 0; looks++ {
		if whose(c.Process.Pid, state) != filepath.Base(dir) {
			if ending(c.Process.Pid) && !runsHAProxy(c.Process.Pid) {
				break
			}
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("not found at look %d", looks)
	}
	if err := c.Wait(); err != nil || looks < 1000 {
		t.Errorf("looked %d times, %v", looks, err)
	}
}

// The same where no process has a session that can be seen, as in a container whose init
// came in from outside.
func TestFoundWithoutASession(t *testing.T) {
	need.Root(t)
	out, err := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", os.Args[0], "-test.v", "-test.run=^TestFoundWhileItExecutes$").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFoundWhileItExecutes") {
		t.Errorf("%v: %s", err, out)
	}
}

// A thread of the kernel has no command line, and is not ending.
func TestKernelThreadIsNotEnding(t *testing.T) {
	const kthreadd = 2
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || string(comm) != "kthreadd\n" {
		t.Skip("the kernel's threads are out of sight, as in a container")
	}
	if ending(kthreadd) {
		t.Error("kthreadd is ending")
	}
}
