package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

// An image that does not exist is told in one line, before a network, a guard
// or a container is made.
func TestMissingNodeImage(t *testing.T) {
	need.Root(t)
	need.Docker(t)
	before := dockerObjects(t)
	cmd := exec.Command(plumbline(t), "cluster", "up", "--node-image=plumbline/none:1", "plumbline-none")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("exit status %d, want 2", cmd.ProcessState.ExitCode())
	}
	last := strings.TrimSpace(string(out))
	last = last[strings.LastIndex(last, "\n")+1:]
	if want := "plumbline: node image plumbline/none:1 is not there; `plumbline node-image build` makes it"; last != want {
		t.Errorf("it says %q, want %q", last, want)
	}
	if after := dockerObjects(t); after != before {
		t.Errorf("left behind: before\n%s\nafter\n%s", before, after)
	}
}

func dockerObjects(t *testing.T) string {
	t.Helper()
	var all string
	for _, args := range [][]string{{"ps", "-aq"}, {"network", "ls", "-q"}, {"volume", "ls", "-q"}} {
		out, err := exec.Command("docker", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		all += string(out)
	}
	return all
}
