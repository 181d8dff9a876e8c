package userspace_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/userspace"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// Whatever of these somebody does, Watch tells and a complete Apply mends.
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
		"nft flush chain ip plumbline-userspace deliver",
		"nft insert rule ip plumbline-userspace classify drop",
		"nft flush set ip plumbline-userspace services-forward",
		"nft add element ip plumbline-userspace cluster-ips { 192.0.2.99 }",
		"ip rule del priority 90",
		"ip -6 rule del priority 90",
		"ip route flush table 28780",
		"ip -6 route flush table 28780",
	} {
		t.Run(harm, func(t *testing.T) {
			lost := watch(t, target, ns)
			if out, err := run(harm); err != nil {
				t.Fatalf("%s: %v: %s", harm, err, out)
			}
			heard(t, lost)
			apply(t, target, nil, p)
			if got := state(); got != want {
				t.Errorf("not mended: %s", got)
			}
		})
	}
}

// The Target's own changes, of whatever size, are nobody else's: what is heard
// after many of them is the one that somebody else made.
func TestWatchIgnoresItsOwn(t *testing.T) {
	need.Program(t, "nft")
	ns := netns.ForTest(t, "node")
	target := started(t, userspace.Config{Logger: logger(t), NetNS: ns.FD()})
	p, empty := planOf(t, web), planOf(t, services)
	apply(t, target, nil, empty)
	lost := watch(t, target, ns)
	for range 20 {
		apply(t, target, nil, p)
		apply(t, target, p, empty)
	}
	other := "add table ip other; delete table ip other; add element ip plumbline-userspace cluster-ips { 192.0.2.99 }"
	if err := ns.Do(func() error { return exec.Command("nft", other).Run() }); err != nil {
		t.Fatal(err)
	}
	heard(t, lost)
	if n := len(lost); n > 0 {
		t.Errorf("%d changes too many are taken for somebody else's", n)
	}
}

// watch starts watching until the test ends; a loss comes out of the channel.
func watch(t *testing.T, target *userspace.Target, ns *netns.NS) chan bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lost, done := make(chan bool, 1000), make(chan error, 1)
	before := listeners(t, ns)
	go func() { done <- target.Watch(ctx, func() { lost <- true }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	const sockets = 2 // of nftables and of routing
	eventually(t, "Watch listens", func() bool { return listeners(t, ns) == before+sockets })
	return lost
}

// listeners counts the netlink sockets of a namespace that hear of all groups they
// asked for: Watch's have the last of them.
func listeners(t *testing.T, ns *netns.NS) (n int) {
	t.Helper()
	last := map[string]uint64{
		strconv.Itoa(unix.NETLINK_NETFILTER): 1 << (unix.NFNLGRP_NFTABLES - 1),
		strconv.Itoa(unix.NETLINK_ROUTE):     1 << (unix.RTNLGRP_IPV6_ROUTE - 1),
	}
	err := ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/netlink")
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line) // sk protocol portid groups ...
			if len(f) < 4 {
				continue
			}
			if groups, err := strconv.ParseUint(f[3], 16, 64); err == nil && groups&last[f[1]] != 0 {
				n++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func heard(t *testing.T, lost chan bool) {
	t.Helper()
	select {
	case <-lost:
	case <-time.After(30 * time.Second):
		t.Fatal("not noticed")
	}
}
