package userspace_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// listenerPort is what the kernel chose.
var listenerPort = regexp.MustCompile(`(tproxy to \S+):\d+`)

// The distribution's nft prints every rule, and what it prints is the file
// testdata/ruleset.nft, the best description of the rules.
func TestNftLists(t *testing.T) {
	need.Program(t, "nft")
	ns := netns.ForTest(t, "node")
	target := started(t, userspace.Config{Logger: logger(t), NetNS: ns.FD()})
	apply(t, target, nil, planOf(t, web))
	var out []byte
	err := ns.Do(func() (err error) { out, err = exec.Command("nft", "list", "ruleset").Output(); return err })
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("nft list ruleset: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	got := listenerPort.ReplaceAllString(string(out), "$1:PORT")
	const golden = "testdata/ruleset.nft"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("nft list ruleset (-%s +now):\n%s", golden, diff)
	}
}
