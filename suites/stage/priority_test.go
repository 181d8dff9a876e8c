package stage

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

// groupMark has TestRaiseGroup do what it looks at, in a process of its own.
const groupMark = "PLUMBLINE_STAGE_TEST_GROUP"

// The priority is that of a session that the process leads; another's stays as it is.
func TestRaiseGroup(t *testing.T) {
	if os.Getenv(groupMark) != "" {
		if err := (&Kind{base: base{log: slog.Default()}}).raiseGroup(t.Context()); err != nil {
			t.Error(err)
		}
		now, err := os.ReadFile(group)
		fmt.Printf("group %s, %v\n", now, err)
		return
	}
	need.Root(t)
	need.File(t, group, "groups of the scheduler by session")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		`exec "$0" "$@"`:           fmt.Sprintf("nice %d\n", nice),
		`"$0" "$@"; s=$?; exit $s`: "nice 0\n", // of the shell's session
	} {
		cmd := exec.Command("sh", "-c", line, self, "-test.run=^TestRaiseGroup$")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Env = append(os.Environ(), groupMark+"=1")
		out, err := cmd.CombinedOutput()
		if _, got, _ := strings.Cut(string(out), "group "); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v: %s, want %s", line, err, out, want)
		}
	}
}
