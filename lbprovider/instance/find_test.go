package instance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
