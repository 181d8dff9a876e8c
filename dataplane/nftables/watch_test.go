package nftables_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/fixtures/netns"
)

const (
	// within is the time a foreign change may take to be repaired.
	within = time.Second
	// patience is how long a test waits for what must come.
	patience = 60 * time.Second
)

// watch starts watching; what lost says comes out of the channel.
func watch(t testing.TB, ctx context.Context, target *nftables.Target, ns *netns.NS) chan time.Time {
	t.Helper()
	lost, done := make(chan time.Time, 1000), make(chan error, 1)
	go func() {
		done <- target.Watch(ctx, func() {
			select {
			case lost <- time.Now():
			default:
			}
		})
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(patience); !listens(t, ns); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody listens for changes")
		}
	}
	mustNft(t, ns, "add element ip plumbline hairpin { 10.0.0.1 . 10.0.0.1 }")
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("nothing is seen of a foreign change")
	}
	return lost
}

// listens says whether a socket of the namespace hears of changes of nftables.
func listens(t testing.TB, ns *netns.NS) (yes bool) {
	t.Helper()
	err := ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/netlink")
		for line := range strings.Lines(string(text)) {
			// sk protocol portid groups ...
			f := strings.Fields(line)
			if len(f) < 4 || f[1] != strconv.Itoa(unix.NETLINK_NETFILTER) {
				continue
			}
			groups, err := strconv.ParseUint(f[3], 16, 64)
			if err != nil {
				return err
			}
			yes = yes || groups&(1<<(unix.NFNLGRP_NFTABLES-1)) != 0
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// Whatever somebody else does to the tables is noticed and repaired within a
// second; what they do to their own is not our business.
func TestWatchForeignChanges(t *testing.T) {
	ns := netns.ForTest(t, "watch")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	target, p := newTarget(t, ns), everyKind()
	apply(t, target, nil, p)
	lost := watch(t, ctx, target, ns)
	apply(t, target, nil, p) // without what watch added
	mustNft(t, ns, "add table ip other; add chain ip other c; add rule ip other c counter; delete table ip other")
	mustNft(t, ns, "add table inet plumbline; delete table inet plumbline") // no family of ours
	var took []time.Duration
	for _, damage := range []string{
		"flush ruleset",
		"delete table ip plumbline",
		"delete table ip6 plumbline",
		"flush chain ip plumbline prerouting",
		"flush chain ip plumbline services-2",
		"add rule ip plumbline prerouting drop",
		"insert rule ip6 plumbline forward drop",
		"add chain ip plumbline mine { type nat hook prerouting priority -150; }",
		"delete element ip plumbline services { 10.96.0.10 . udp . 53 }",
		"delete element ip plumbline service-slots-2 { 10.96.0.10 . udp . 53 . 0x00000001 }",
		"delete element ip plumbline service-slots { 0x00000002 }",
		"flush chain ip plumbline service-slots-2",
		"delete element ip plumbline service-classes { 1:2 }",
		"add element ip plumbline cluster-ips { 192.0.2.99 }",
		"flush set ip plumbline restricted-sources",
		"flush map ip plumbline affinity-groups",
		"add table ip plumbline { flags dormant; }",
	} {
		t.Run(damage, func(t *testing.T) {
			want := mustNft(t, ns, "--stateless", "list", "ruleset")
			begin := time.Now()
			mustNft(t, ns, damage)
			select {
			case <-lost:
			case <-time.After(patience):
				t.Fatal("not noticed")
			}
			apply(t, target, nil, p)
			took = append(took, time.Since(begin))
			t.Logf("noticed and repaired %v after nft was called", time.Since(begin))
			if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
				t.Errorf("kernel after the repair (-want +got):\n%s", diff)
			}
			if got := mustNft(t, ns, "--stateless", "list", "ruleset"); ordered(got) != ordered(want) {
				t.Errorf("rule set after the repair (-before +after):\n%s", cmp.Diff(want, got))
			}
			if len(lost) > 0 {
				t.Errorf("%d more calls, as of our own repair", len(lost))
			}
		})
	}
	slices.Sort(took) // one alone says how busy the host is
	if median := took[len(took)/2]; median > within {
		t.Errorf("noticed and repaired within %v, want %v", median, within)
	}
	cancel()
}

// Own changes are not taken for foreign ones, however many, and watching does
// not make them slow.
func TestWatchOwnChanges(t *testing.T) {
	ns := netns.ForTest(t, "own")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	target, p := newTarget(t, ns), many(1000, 10)
	apply(t, target, nil, p)
	const changes = 10000
	spent := func() time.Duration {
		begin := time.Now()
		old := part(p, 5, service(5, 10))
		for i := range changes {
			s := service(5, 10)
			s.Frontends[0].Outside.Endpoints[4] = endpoint(70000+i, 4)
			new := part(p, 5, s)
			apply(t, target, old, new)
			old = new
		}
		apply(t, target, old, part(p, 5, service(5, 10)))
		return time.Since(begin)
	}
	alone := spent()
	lost := watch(t, ctx, target, ns)
	apply(t, target, nil, p)
	watched := spent()
	t.Logf("%d changes took %v, watched %v", changes, alone, watched)
	if len(lost) > 0 {
		t.Errorf("own changes were taken for foreign ones %d times", len(lost))
	}
	mustNft(t, ns, "delete element ip plumbline node-addresses { 192.0.2.1 }")
	select {
	case <-lost:
	case <-time.After(patience):
		t.Error("after them a foreign change is not noticed")
	}
	cancel()
}

// Foreign changes faster than they can be read are a loss as well.
func TestWatchOverrun(t *testing.T) {
	ns := netns.ForTest(t, "flood")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	target := newTarget(t, ns)
	apply(t, target, nil, many(1, 1))
	calls, hold, done := make(chan bool), make(chan bool), make(chan error, 1)
	go func() {
		done <- target.Watch(ctx, func() {
			select {
			case calls <- true:
				<-hold
			case <-ctx.Done():
			}
		})
	}()
	touch := func() {
		mustNft(t, ns, "add element ip plumbline node-addresses { 192.0.2.98 }; delete element ip plumbline node-addresses { 192.0.2.98 }")
	}
	for held := false; !held; { // until it has begun to watch
		touch()
		select {
		case <-calls:
			held = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	other := newTarget(t, ns) // while nobody reads, a second agent fills the socket
	apply(t, other, nil, many(20000, 2))
	apply(t, other, nil, many(1, 1))
	hold <- true
	next := func(wait time.Duration) bool {
		select {
		case <-calls:
			hold <- true
			return true
		case <-time.After(wait):
			return false
		}
	}
	if !next(patience) {
		t.Error("lost is not called because of the overrun")
	}
	for next(100 * time.Millisecond) { // what was in the socket
	}
	if touch(); !next(patience) {
		t.Error("lost is not called after the overrun")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// ordered is a listing with its words sorted: chains and elements that were
// written again are listed last.
func ordered(listing string) string {
	words := strings.FieldsFunc(listing, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	slices.Sort(words)
	return strings.Join(words, " ")
}
