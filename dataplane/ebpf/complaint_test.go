package ebpf

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// What goes on is said once, and again where it is another thing, or comes back.
func TestComplaint(t *testing.T) {
	log := &strings.Builder{}
	c := complaint{log: slog.New(slog.NewTextHandler(log, nil)), about: "amiss"}
	one, two := errors.New("one"), errors.New("two")
	for i, step := range []struct {
		err  error
		said int // in all
	}{{nil, 0}, {one, 1}, {one, 1}, {errors.New("one"), 1}, {two, 2}, {nil, 2}, {nil, 2}, {two, 3}} {
		c.say(step.err)
		if n := strings.Count(log.String(), "msg=amiss"); n != step.said {
			t.Fatalf("after step %d %d lines are said, want %d:\n%s", i, n, step.said, log)
		}
	}
}
