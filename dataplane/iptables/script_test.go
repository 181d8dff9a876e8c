package iptables_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// iptables-restore takes the script of all cases at once.
func TestScriptIsTaken(t *testing.T) {
	ns := netns.ForTest(t, "script")
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	for program, v6 := range map[string]bool{"iptables-restore": false, "ip6tables-restore": true} {
		need.Program(t, program)
		err := ns.Do(func() error {
			cmd := exec.CommandContext(t.Context(), program, "--test", "--noflush")
			cmd.Stdin = strings.NewReader(iptables.Script(dptest.AtOnce(all), v6))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%.2000s", program, err, out)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
