package userspace_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Whatever of these somebody removes, Watch tells and a complete Apply mends.
func TestWatch(t *testing.T) {
	need.Program(t, "nft")
	need.Program(t, "ip")
	ns := netns.ForTest(t, "node")
	target := started(t, userspace.Config{Logger: logger(t), NetNS: ns.FD()})
	p := planOf(t, web)
	apply(t, target, nil, p)
	run := func(line string) (string, error) {
		var out []byte
		argv := strings.Fields(line)
		err := ns.Do(func() (err error) { out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput(); return err })
		return string(out), err
	}
	state := func() string {
		t.Helper()
		var all []string
		for _, line := range []string{"nft list ruleset", "ip rule", "ip -6 rule", "ip route show table 28780", "ip -6 route show table 28780"} {
			out, err := run(line)
			if err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
			all = append(all, out)
		}
		return listenerPort.ReplaceAllString(strings.Join(all, "\n"), "$1")
	}
	want := state()
	for _, harm := range []string{
		"nft flush ruleset",
		"nft delete table ip6 plumbline-userspace",
		"ip rule del priority 90",
		"ip -6 rule del priority 90",
		"ip route flush table 28780",
		"ip -6 route flush table 28780",
	} {
		t.Run(harm, func(t *testing.T) {
			lost := make(chan bool, 100)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- target.Watch(ctx, func() { lost <- true }) }()
			eventually(t, "noticed", func() bool { // Watch may not listen yet at the first time
				if out, err := run(harm); err != nil && !strings.Contains(out, "No such file") {
					t.Fatalf("%s: %v: %s", harm, err, out)
				}
				heard := len(lost) > 0
				apply(t, target, nil, p)
				return heard
			})
			if got := state(); got != want {
				t.Errorf("not mended: %s", got)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
