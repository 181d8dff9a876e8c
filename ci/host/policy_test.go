//go:build linux

package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

// The policy that holds back services lasts as long as the script: of one that was killed it
// lets everything start, and goes.
func TestPolicyEndsWithTheScript(t *testing.T) {
	need.Program(t, "bash")
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy-rc.d")
	text, err := os.ReadFile("prepare.sh")
	if err != nil {
		t.Fatal(err)
	}
	functions, ok := strings.CutSuffix(strings.TrimSpace(string(text)), `main "$@"`)
	if !ok {
		t.Fatal("prepare.sh does not end with main")
	}
	script := filepath.Join(dir, "prepare.sh")
	ask := `hold_services
for service in haproxy docker cron; do "$POLICY" "$service" start || echo "$service $?"; done
kill -9 $$`
	if err := os.WriteFile(script, []byte(functions+ask), 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("bash", script)
	c.Env = append(os.Environ(), "PLUMBLINE_POLICY="+policy)
	out, err := c.Output()
	if got, want := string(out), "haproxy 101\ndocker 101\n"; got != want || err == nil {
		t.Errorf("held back %q, want %q (%v)", got, want, err)
	}
	if _, err := os.Stat(policy); err != nil {
		t.Errorf("killed, and yet: %v", err)
	}
	if out, err := exec.Command(policy, "haproxy", "start").CombinedOutput(); err != nil {
		t.Errorf("after the script was killed: %v: %s", err, out)
	}
	if _, err := os.Stat(policy); !os.IsNotExist(err) {
		t.Errorf("it is there still: %v", err)
	}
}
