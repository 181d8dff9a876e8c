package iptables_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// run runs a program inside a namespace.
func run(t testing.TB, ns *netns.NS, argv ...string) string {
	t.Helper()
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func newTarget(t testing.TB, ns *netns.NS, f iptables.Flavour) *iptables.Target {
	return iptables.New(iptables.Config{Logger: logger(t), NetNS: ns.FD(), Flavour: f})
}

func apply(t testing.TB, target *iptables.Target, old, new *plan.Plan) {
	t.Helper()
	if err := target.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
}

func dump(t testing.TB, ns *netns.NS, f iptables.Flavour) string {
	t.Helper()
	out, err := iptables.DumpFlavour(f, ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// holds compares the kernel with what is rendered.
func holds(t testing.TB, ns *netns.NS, f iptables.Flavour, p *plan.Plan) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(iptables.Render(p), "\n"), strings.Split(dump(t, ns, f), "\n")); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
}

func name(i int) objects.Name { return objects.Name{Namespace: "bench", Name: fmt.Sprint("svc-", i)} }

func key(i int) plan.Key {
	return plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)}), Protocol: objects.TCP, Port: 80}
}

func endpoint(i, k int) plan.Endpoint {
	return plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 200 + byte(i>>16), byte(i >> 8), byte(i)}), Port: uint16(8000 + k)}
}

func service(i, k int) plan.Service {
	f := plan.Frontend{Key: key(i), Kind: plan.ClusterIP, Group: key(i), Outside: plan.Route{Action: plan.Forward}}
	for j := range k {
		f.Outside.Endpoints = append(f.Outside.Endpoints, endpoint(i, j))
	}
	return plan.Service{Frontends: []plan.Frontend{f}}
}

// many is a plan of n ClusterIPs with k endpoints each.
func many(n, k int) *plan.Plan {
	p := &plan.Plan{Node: plan.Node{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, Services: map[objects.Name]plan.Service{}}
	for i := range n {
		p.Services[name(i)] = service(i, k)
	}
	return p
}

// part is the plan of one Service of a larger plan.
func part(p *plan.Plan, i int, s plan.Service) *plan.Plan {
	return &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{name(i): s}}
}

// with is a plan with one Service replaced.
func with(p *plan.Plan, i int, s plan.Service) *plan.Plan {
	out := &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{}}
	for n, old := range p.Services {
		out.Services[n] = old
	}
	out.Services[name(i)] = s
	return out
}

// E4: from two endpoints to three, a Service gets one endpoint chain and the
// probabilities become 1/3, 1/2 and 1; going back takes it away.
func TestScale(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "scale")
		target := newTarget(t, ns, f)
		show := func(p *plan.Plan) (chances []string, endpoints int) {
			t.Helper()
			out, err := iptables.Path(f, p, key(0), ns.FD())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`--probability (\S+)`).FindAllStringSubmatch(out, -1) {
				chances = append(chances, m[1])
			}
			if !strings.Contains(out, "  -d 10.96.0.0/32 -p tcp -m tcp --dport 80 -g PLUMB-SVC-") || strings.Contains(out, "10.96.0.1/32") {
				t.Errorf("path is not this frontend's:\n%s", out)
			}
			return chances, strings.Count(out, "\nnat PLUMB-SEP-")
		}
		two, three := many(2, 2), with(many(2, 2), 0, service(0, 3))
		apply(t, target, nil, two)
		before := dump(t, ns, f)
		if chances, n := show(two); n != 2 || !slices.Equal(chances, []string{"0.50000000000"}) {
			t.Errorf("two endpoints: %d chains, %v", n, chances)
		}
		apply(t, target, part(two, 0, service(0, 2)), part(two, 0, service(0, 3)))
		if chances, n := show(three); n != 3 || !slices.Equal(chances, []string{"0.33333333349", "0.50000000000"}) {
			t.Errorf("three endpoints: %d chains, %v", n, chances)
		}
		apply(t, target, part(two, 0, service(0, 3)), part(two, 0, service(0, 2)))
		if after := dump(t, ns, f); after != before {
			t.Errorf("back to two:\n%s\nwant\n%s", after, before)
		}
	})
}

// What is not ours stays as it is, whatever we do, also what is in the same
// chains of the kernel and what another proxy left.
func TestForeignRulesStay(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "foreign")
		ipt := "iptables-" + string(f)
		for _, args := range []string{
			"-t nat -N KUBE-SERVICES", "-t nat -A PREROUTING -j KUBE-SERVICES", "-t nat -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j RETURN",
			"-t nat -N PLUMBER", "-t nat -A OUTPUT -j PLUMBER", "-t filter -P FORWARD DROP", "-t filter -A FORWARD -s 192.0.2.0/24 -j ACCEPT",
			"-t mangle -A PREROUTING -j MARK --set-xmark 0x1/0x1",
		} {
			run(t, ns, append([]string{ipt}, strings.Fields(args)...)...)
		}
		save := func() string {
			var out []string
			for line := range strings.Lines(run(t, ns, ipt+"-save")) {
				if !strings.HasPrefix(line, "#") {
					out = append(out, regexp.MustCompile(`\[\d+:\d+\]`).ReplaceAllString(line, ""))
				}
			}
			return strings.Join(out, "")
		}
		before := save()
		target := newTarget(t, ns, f)
		apply(t, target, nil, many(3, 2))
		apply(t, target, many(3, 2), many(2, 3))
		if !strings.Contains(save(), "PLUMB-SVC-") {
			t.Fatal("nothing of ours is there")
		}
		if err := iptables.Clean(ns.FD()); err != nil {
			t.Fatal(err)
		}
		if after := save(); after != before {
			t.Errorf("after cleaning up:\n%s\nbefore:\n%s", after, before)
		}
		if err := iptables.Clean(ns.FD()); err != nil {
			t.Errorf("nothing to clean: %v", err)
		}
	})
}

// sticky is a Service with affinity.
func sticky(i, k int) plan.Service {
	s := service(i, k)
	s.Frontends[0].Affinity = time.Hour
	return s
}

// A restart over a state that is partly old rewrites only what differs: counters
// of the rest go on, and no client is forgotten by the affinity, not even by that
// of a Service that changes.
func TestTakeOverDisturbsNothing(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "restart")
		p := with(with(many(4, 2), 0, sticky(0, 2)), 1, sticky(1, 2))
		apply(t, newTarget(t, ns, f), nil, p)
		lists := recentLists(t, ns)
		if len(lists) != 4 {
			t.Fatalf("lists %v, want one for each endpoint with affinity", lists)
		}
		for _, list := range lists {
			recentFile(t, ns, list, "+192.0.2.77")
		}
		counted := func() string {
			out := run(t, ns, "iptables-"+string(f)+"-save", "-c", "-t", "nat")
			return strings.Join(regexp.MustCompile(`(?m)^\[[^0].*$`).FindAllString(out, -1), "\n")
		}
		run(t, ns, "ip", "route", "add", "default", "dev", "lo")
		_ = ns.Do(func() error { // counts in PLUMB-SERVICES of Service 3 and in its chains
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Connect(fd, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{10, 96, 0, 3}})
		})
		before := counted()
		if !strings.Contains(before, "PLUMB-SVC-") {
			t.Fatalf("no rule of a Service has counted a packet:\n%s", before)
		}
		next := with(with(p, 1, sticky(1, 3)), 2, service(2, 5))
		apply(t, newTarget(t, ns, f), nil, next)
		if after := counted(); after != before {
			t.Errorf("counters after a restart:\n%s\nbefore:\n%s", after, before)
		}
		for _, list := range lists {
			if !strings.Contains(recentFile(t, ns, list, ""), "src=192.0.2.77") {
				t.Errorf("list %s has forgotten its client", list)
			}
		}
		holds(t, ns, f, next)
	})
}

const recentDir = "/proc/thread-self/net/xt_recent"

func recentLists(t *testing.T, ns *netns.NS) []string {
	t.Helper()
	var out []string
	if err := ns.Do(func() error {
		entries, err := os.ReadDir(recentDir)
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// recentFile writes to a list, if there is something to write, and reads it.
func recentFile(t *testing.T, ns *netns.NS, list, write string) string {
	t.Helper()
	var out []byte
	if err := ns.Do(func() error {
		path := filepath.Join(recentDir, list)
		if write != "" {
			return os.WriteFile(path, []byte(write), 0)
		}
		var err error
		out, err = os.ReadFile(path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Whatever others do to our chains is found by the next poll and mended; what
// they do to their own is not our business.
func TestPollFindsChanges(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "poll")
		ipt := "iptables-" + string(f)
		target, p := newTarget(t, ns, f), with(many(3, 2), 1, sticky(1, 2))
		if same, err := target.Check(t.Context()); !same || err != nil {
			t.Fatalf("before the first Apply: %t, %v", same, err)
		}
		apply(t, target, nil, p)
		apply(t, target, p, with(p, 2, service(2, 4)))
		p = with(p, 2, service(2, 4))
		want := dump(t, ns, f)
		ctx, cancel := context.WithCancel(t.Context())
		lost, done := make(chan bool, 100), make(chan error, 1)
		go func() { done <- target.Poll(ctx, 20*time.Millisecond, func() { lost <- true }) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		run(t, ns, ipt, "-t", "nat", "-A", "PREROUTING", "-s", "192.0.2.9/32", "-j", "RETURN")
		if same, err := target.Check(t.Context()); !same || err != nil {
			t.Errorf("after somebody else's rule: %t, %v", same, err)
		}
		for _, args := range []string{
			"-t nat -F", "-t filter -F", "-t nat -D PREROUTING -j PLUMB-SERVICES", "-t filter -F PLUMB-FILTER", "-t nat -A PLUMB-SERVICES -j RETURN",
			"-t nat -F PLUMB-MASQ", "-t nat -N PLUMB-STRANGER", "-t filter -D FORWARD -m conntrack --ctstate NEW -j PLUMB-FILTER", "-t nat -A OUTPUT -j PLUMB-SERVICES",
		} {
			for len(lost) > 0 {
				<-lost
			}
			run(t, ns, append([]string{ipt}, strings.Fields(args)...)...)
			select {
			case <-lost:
			case <-time.After(time.Minute):
				t.Fatalf("iptables %s: not noticed", args)
			}
			apply(t, target, nil, p)
			if got := dump(t, ns, f); got != want {
				t.Errorf("iptables %s, mended:\n%s\nwant\n%s", args, got, want)
			}
			if same, err := target.Check(t.Context()); !same || err != nil {
				t.Errorf("iptables %s, mended: %t, %v", args, same, err)
			}
		}
	})
}

// A frontend the kernel or the program refuses is named, the others are as asked.
// Affinity beyond 32 bits of seconds is such a one.
func TestRefused(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "refused")
		bad := sticky(1, 2)
		bad.Frontends[0].Affinity = 1 << 33 * time.Second
		wantRefused(t, ns, f, many(3, 2), bad)
	})
}

// At a start with many Services, which is written in batches, one that is refused
// in the first of them is in nobody's way.
func TestRefusedAmongMany(t *testing.T) {
	needFlavour(t, iptables.NFT)
	bad := sticky(1, 1)
	bad.Frontends[0].Affinity = 1 << 33 * time.Second
	wantRefused(t, netns.ForTest(t, "many"), iptables.NFT, many(900, 1), bad)
}

// A large state comes and goes in parts: after a start over another one, after
// shrinking to nothing, and after cleaning up, the kernel holds what is asked for.
func TestLarge(t *testing.T) {
	needFlavour(t, iptables.NFT)
	ns := netns.ForTest(t, "large")
	apply(t, newTarget(t, ns, iptables.NFT), nil, many(400, 4))
	other := many(600, 2)
	for i := range 300 {
		delete(other.Services, name(i))
	}
	target := newTarget(t, ns, iptables.NFT)
	apply(t, target, nil, other)
	holds(t, ns, iptables.NFT, other)
	apply(t, target, other, many(0, 0))
	holds(t, ns, iptables.NFT, many(0, 0))
	apply(t, target, many(0, 0), many(400, 4))
	if same, err := target.Check(t.Context()); !same || err != nil {
		t.Errorf("check: %t, %v", same, err)
	}
	if err := iptables.Clean(ns.FD()); err != nil {
		t.Fatal(err)
	}
	if left := run(t, ns, "iptables-nft-save"); strings.Contains(left, "PLUMB") {
		t.Errorf("left after cleaning up:\n%s", left)
	}
}

// A kernel that does not say what it refuses, as the legacy interface: a program
// in front of the true one fails at COMMIT when it sees Service 1.
func TestRefusedAtCommit(t *testing.T) {
	needFlavour(t, iptables.Legacy)
	true_, err := exec.LookPath("iptables-legacy-restore")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/bash
set -euo pipefail
input=$(cat)
if grep -q 'to-destination 10.200.0.1:8007' <<<"$input"; then
  echo "iptables-restore: line $(grep -n COMMIT <<<"$input" | head -1 | cut -d: -f1) failed" >&2
  exit 1
fi
%s "$@" <<<"$input"
`, true_)
	if err := os.WriteFile(filepath.Join(dir, "iptables-legacy-restore"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	wantRefused(t, netns.ForTest(t, "commit"), iptables.Legacy, many(9, 2), service(1, 9))
}

// wantRefused replaces Service 1 by one that is refused, by difference and at a
// start.
func wantRefused(t *testing.T, ns *netns.NS, f iptables.Flavour, p *plan.Plan, bad plan.Service) {
	t.Helper()
	good := with(p, 1, plan.Service{})
	check := func(err error) {
		t.Helper()
		var refused *plan.Refused
		if !errors.As(err, &refused) || len(refused.Frontends) != 1 || refused.Frontends[key(1)] == nil {
			t.Fatalf("got %v, want frontend %s refused", err, key(1))
		}
		holds(t, ns, f, good)
	}
	target := newTarget(t, ns, f)
	apply(t, target, nil, p)
	check(target.Apply(t.Context(), p, with(p, 1, bad)))
	if same, err := target.Check(t.Context()); !same || err != nil {
		t.Errorf("check: %t, %v", same, err)
	}
	apply(t, target, part(p, 1, bad), part(p, 1, p.Services[name(1)]))
	holds(t, ns, f, p)
	check(newTarget(t, ns, f).Apply(t.Context(), nil, with(p, 1, bad)))
}

// A rule of ours that somebody took away is no reason to refuse a frontend: the
// difference fails, and the next complete Apply mends it.
func TestDriftIsNotRefusal(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "drift")
		target, p := newTarget(t, ns, f), many(2, 2)
		apply(t, target, nil, p)
		run(t, ns, "iptables-"+string(f), "-t", "nat", "-F", "PLUMB-SERVICES")
		err := target.Apply(t.Context(), part(p, 1, service(1, 2)), part(p, 1, plan.Service{}))
		var refused *plan.Refused
		if err == nil || errors.As(err, &refused) {
			t.Fatalf("got %v, want an error that refuses nothing", err)
		}
		if err := target.Apply(t.Context(), p, p); err == nil {
			t.Error("a difference to an unknown state was taken")
		}
		apply(t, target, nil, p)
		holds(t, ns, f, p)
		run(t, ns, "iptables-"+string(f), "-t", "nat", "-F")
		run(t, ns, "iptables-"+string(f), "-t", "nat", "-X")
		for _, s := range []plan.Service{service(2, 1), masqueraded(2)} {
			err = target.Apply(t.Context(), &plan.Plan{Node: p.Node}, part(p, 2, s))
			if err == nil || errors.As(err, &refused) {
				t.Errorf("without any chain of ours: got %v, want an error that refuses nothing", err)
			}
			apply(t, target, nil, p)
			run(t, ns, "iptables-"+string(f), "-t", "nat", "-F")
			run(t, ns, "iptables-"+string(f), "-t", "nat", "-X", "PLUMB-MASQ")
		}
	})
}

// masqueraded is a Service whose chain jumps to a chain that all share.
func masqueraded(i int) plan.Service {
	s := service(i, 2)
	s.Frontends[0].Outside.Masquerade = plan.MasqAlways
	return s
}

// What is left of one family alone is found.
func TestLeftOfOneFamily(t *testing.T) {
	for _, f := range flavours() {
		for _, program := range []string{"iptables-", "ip6tables-"} {
			t.Run(program+string(f), func(t *testing.T) {
				needFlavour(t, f)
				ns := netns.ForTest(t, "left")
				run(t, ns, program+string(f), "-t", "nat", "-N", iptables.Prefix+"X")
				left, err := iptables.Left(ns.FD())
				if len(left) != 1 || err != nil {
					t.Errorf("%q, %v; want one table", left, err)
				}
			})
		}
	}
}

// The lock of others is waited for, its absence is told. The lock file is one of
// this test's, so that it stands in nobody's way.
func TestLock(t *testing.T) {
	needFlavour(t, iptables.Legacy)
	ns := netns.ForTest(t, "lock")
	path := filepath.Join(t.TempDir(), "lock")
	t.Setenv("XTABLES_LOCKFILE", path)
	target, p := newTarget(t, ns, iptables.Legacy), many(1, 1)
	held, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	err = target.Apply(t.Context(), nil, p)
	var refused *plan.Refused
	if !errors.Is(err, iptables.ErrLocked) || errors.As(err, &refused) {
		t.Fatalf("while another holds the lock: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- target.Apply(t.Context(), nil, p) }()
	awaitWaiter(t, held)
	held.Close() // and with it the lock
	if err := <-done; err != nil {
		t.Errorf("lock given back while we wait: %v", err)
	}
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(t.TempDir(), "missing", "lock"))
	err = newTarget(t, ns, iptables.Legacy).Apply(t.Context(), nil, many(2, 1))
	if err == nil || !strings.Contains(err.Error(), "/run, must exist and be writable") {
		t.Errorf("without the lock's folder: %v", err)
	}
}

// awaitWaiter waits until another process has the lock file open too.
func awaitWaiter(t *testing.T, held *os.File) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		links, err := filepath.Glob("/proc/[0-9]*/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range links {
			if to, err := os.Readlink(l); err == nil && to == held.Name() && !strings.HasPrefix(l, fmt.Sprintf("/proc/%d/", os.Getpid())) {
				return
			}
		}
	}
	t.Fatal("nobody waits for the lock")
}

// NET_ADMIN is what the nft flavour needs, the legacy one NET_RAW as well.
func TestCapabilities(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		ns := netns.ForTest(t, "caps")
		apply := func(keep ...uintptr) error {
			return ns.Do(func() error {
				for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
					if slices.Contains(keep, c) {
						continue
					}
					if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
						return err
					}
				}
				target := iptables.New(iptables.Config{Logger: logger(t), Flavour: f})
				return target.Apply(t.Context(), nil, many(1, 1))
			})
		}
		err := apply(unix.CAP_NET_ADMIN)
		switch f {
		case iptables.NFT:
			if err != nil {
				t.Errorf("with NET_ADMIN: %v", err)
			}
		case iptables.Legacy:
			if err == nil || !strings.Contains(err.Error(), "without the right to (NET_ADMIN; legacy needs NET_RAW") {
				t.Errorf("with NET_ADMIN alone: %v, want an error that asks for NET_RAW", err)
			}
			if err := apply(unix.CAP_NET_ADMIN, unix.CAP_NET_RAW); err != nil {
				t.Errorf("with NET_ADMIN and NET_RAW: %v", err)
			}
		}
		if err := apply(); err == nil || !strings.Contains(err.Error(), "NET_ADMIN") {
			t.Errorf("without capabilities: %v", err)
		}
	})
}

// On a node whose own chains let nothing through, what is masqueraded reaches its endpoint and
// the answers come back, and whoever asks for health gets an answer, as with kube-proxy; all else
// is the host's or the CNI plugin's to let through.
func TestWhereNothingIsLetThrough(t *testing.T) {
	each(t, func(t *testing.T, f iptables.Flavour) {
		n := dptest.NewNet(t)
		for _, v6 := range []bool{false, true} {
			program := map[bool]string{false: "iptables-", true: "ip6tables-"}[v6] + string(f)
			run(t, n.Node, program, "-P", "FORWARD", "DROP")
			run(t, n.Node, program, "-P", "INPUT", "DROP")
			run(t, n.Node, program, "-A", "INPUT", "-i", "lo", "-j", "ACCEPT")
		}
		run(t, n.Node, "ip6tables-"+string(f), "-A", "INPUT", "-p", "icmpv6", "-j", "ACCEPT") // who has which address
		nodePort := func(v6 bool, protocol objects.Protocol, to string) plan.Frontend {
			at := netip.MustParseAddrPort(to)
			return plan.Frontend{Kind: plan.NodePort, Key: plan.Key{IPv6: v6, Protocol: protocol, Port: 30080},
				Outside: plan.Route{Action: plan.Forward, Masquerade: plan.MasqAlways, Endpoints: []plan.Endpoint{{Addr: at.Addr(), Port: at.Port()}}}}
		}
		self := dptest.Self.Addrs()
		p := &plan.Plan{Node: plan.Node{Addrs: self[:]}, Services: map[objects.Name]plan.Service{name(0): {
			Frontends:   []plan.Frontend{nodePort(false, objects.TCP, "10.244.2.2:8080"), nodePort(false, objects.UDP, "10.244.2.2:8080"), nodePort(true, objects.TCP, "[fd00:10:244:2::2]:8080")},
			HealthCheck: &plan.HealthCheck{Port: 31999},
		}}}
		var rows []dptest.Row
		for _, k := range slices.SortedFunc(maps.Keys(plan.Index(p)), plan.Key.Compare) {
			at := self[map[bool]int{true: 1}[k.IPv6]]
			rows = append(rows, dptest.Row{Line: k.String(), From: dptest.Outside, Proto: k.Protocol, To: netip.AddrPortFrom(at, k.Port)}.Resolve(p))
		}
		servers, err := n.Serve(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Close()
		target := newTarget(t, n.Node, f)
		apply(t, target, nil, p)
		for _, r := range rows {
			if got, err := n.Observe(t.Context(), r); err != nil || !r.Agrees(got) {
				t.Errorf("%s: %s, %v", r.Line, got.Outcome(), err)
			}
		}
		for _, l := range listenAt(t, n.Node, "0.0.0.0:31999", "0.0.0.0:31998", "[::]:31999") {
			defer l.Close()
		}
		lets := func(at string, want bool) {
			t.Helper()
			within := time.Minute
			if !want { // before its SYN is sent again
				within = 800 * time.Millisecond
			}
			if got := reaches(t, n.Place(dptest.Outside), at, within); got != want {
				t.Errorf("%s is let through: %t, want %t", at, got, want)
			}
		}
		lets("192.0.2.1:31999", true)
		lets("[2001:db8:2::1]:31999", true)
		lets("192.0.2.1:31998", false)
		without := &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{name(0): {Frontends: p.Services[name(0)].Frontends}}}
		apply(t, target, p, without)
		lets("192.0.2.1:31999", false)
		apply(t, target, without, p)
		lets("192.0.2.1:31999", true)
		// Another Service takes the port over in the same change; it was never anybody else's.
		apply(t, target, p, &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{name(0): without.Services[name(0)], name(1): {HealthCheck: &plan.HealthCheck{Port: 31999}}}})
		lets("192.0.2.1:31999", true)
	})
}

// listenAt listens at addresses of a namespace.
func listenAt(t *testing.T, ns *netns.NS, addrs ...string) (out []net.Listener) {
	t.Helper()
	for _, a := range addrs {
		network := map[bool]string{true: "tcp6", false: "tcp4"}[strings.HasPrefix(a, "[")]
		err := ns.Do(func() error {
			l, err := net.Listen(network, a)
			out = append(out, l)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// reaches tells whether a connection comes about in a time.
func reaches(t *testing.T, from *netns.NS, at string, within time.Duration) bool {
	t.Helper()
	err := from.Do(func() error {
		c, err := net.DialTimeout("tcp", at, within)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	if timeout := net.Error(nil); err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
		t.Errorf("connect to %s: %v", at, err)
	}
	return err == nil
}

// A start of so many Services that they are written in parts serves the API and cluster DNS
// before all others.
func TestFirstAtStart(t *testing.T) {
	needFlavour(t, iptables.NFT) // the other writes all at once
	ns := netns.ForTest(t, "first")
	p := many(300, 2)
	wanted := []objects.Name{{Namespace: "default", Name: "kubernetes"}, {Namespace: "kube-system", Name: "kube-dns"}}
	var chains []string
	for i, n := range wanted {
		p.Services[n] = service(1000+i, 2) // the last by address
		chains = append(chains, p.Services[n].Frontends[0].Key.Addr.String()+"/32")
	}
	partly := 0
	target := iptables.NewInParts(iptables.Config{Logger: logger(t), NetNS: ns.FD(), Flavour: iptables.NFT, Fault: func() error {
		now := dump(t, ns, iptables.NFT)
		served := strings.Count(now, " -d 10.")
		for _, at := range chains {
			if served > 0 && !strings.Contains(now, at) {
				t.Errorf("%d rules for Services, and none for %s", served, at)
			}
		}
		if served > 0 && served < 300 {
			partly++
		}
		return nil
	}})
	apply(t, target, nil, p)
	if partly == 0 {
		t.Error("all were served at once: nothing is told of their order")
	}
}
