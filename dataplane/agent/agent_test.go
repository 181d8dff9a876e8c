package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/dataplane/backend"
)

// Where nobody can tell whether the kernel has SCTP (no nf_tables, which iptables
// does without), the agent goes on without it and says so once.
func TestSCTPNotKnown(t *testing.T) {
	for _, c := range []struct {
		sctp func() (bool, error)
		want bool
		said string
	}{
		{nil, false, ""},
		{func() (bool, error) { return false, nil }, false, ""},
		{func() (bool, error) { return true, nil }, true, ""},
		{func() (bool, error) { return false, syscall.EOPNOTSUPP }, false, "SCTP ports are not served: "},
	} {
		var text bytes.Buffer
		a := New(Config{Backend: backend.Backend{SCTP: c.sctp}, Logger: slog.New(slog.NewTextHandler(&text, nil))})
		a.findSCTP()
		if got := a.cfg.Plan.SCTP; got != c.want {
			t.Errorf("SCTP %t, want %t", got, c.want)
		}
		if lines := strings.Count(text.String(), "\n"); !strings.Contains(text.String(), c.said) || lines != min(1, len(c.said)) {
			t.Errorf("said %q, want %q and nothing else", text.String(), c.said)
		}
	}
}
