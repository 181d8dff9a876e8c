package userspace

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

func destinations(n int) []plan.Destination {
	var out []plan.Destination
	for i := range n {
		out = append(out, plan.Destination{Endpoint: plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Port: 80}})
	}
	return out
}

func TestChoiceIsFair(t *testing.T) {
	var a affinity
	const n, draws = 7, 14000
	seen := map[netip.AddrPort]int{}
	for range draws {
		seen[addrPort(a.choose(netip.Addr{}, plan.Outcome{To: destinations(n)}, time.Time{}).Endpoint)]++
	}
	for at, got := range seen {
		if math.Abs(float64(got)-draws/n) > 6*math.Sqrt(draws/n) {
			t.Errorf("%s chosen %d times of %d", at, got, draws)
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d chosen", len(seen), n)
	}
}

func TestAffinity(t *testing.T) {
	var a affinity
	src, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	out := plan.Outcome{To: destinations(100), Affinity: time.Minute, Group: plan.Key{Port: 1}}
	now := time.Unix(1_000_000, 0)
	pick := func(src netip.Addr, out plan.Outcome) netip.AddrPort {
		return addrPort(a.choose(src, out, now).Endpoint)
	}
	first := pick(src, out)
	for range 20 { // each new connection begins the minute anew
		now = now.Add(59 * time.Second)
		if got := pick(src, out); got != first {
			t.Fatalf("went to %s after %s", got, first)
		}
	}
	differs := func(what string, f func() netip.AddrPort) {
		t.Helper()
		for range 20 {
			if f() != first {
				return
			}
		}
		t.Errorf("%s: always %s", what, first)
	}
	group := out
	differs("another group", func() netip.AddrPort { group.Group.Port++; return pick(src, group) })
	differs("another source", func() netip.AddrPort { other = other.Next(); return pick(other, out) })
	gone := out
	gone.To = destinations(100)
	gone.To = append(gone.To[:first.Addr().As4()[3]:first.Addr().As4()[3]], gone.To[first.Addr().As4()[3]+1:]...)
	moved := pick(src, gone)
	if got := pick(src, out); moved == first || got != moved {
		t.Errorf("endpoint %s gone: %s, then %s", first, moved, got)
	}
	now = now.Add(61 * time.Second)
	first = moved
	differs("after its time", func() netip.AddrPort { now = now.Add(61 * time.Second); return pick(src, out) })
	if n := len(a.had); n != 1 {
		t.Errorf("%d memories left of one in time", n)
	}
}

func TestJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	expect := func(wantTCP, wantUDP int64, when string) {
		t.Helper()
		if tcp, udp, err := inherit(dir); tcp != wantTCP || udp != wantUDP || len(err) > 0 {
			t.Errorf("%s: %d and %d lost, want %d and %d: %v", when, tcp, udp, wantTCP, wantUDP, err)
		}
	}
	open := func() *journal {
		t.Helper()
		j, err := openJournal(dir)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	expect(0, 0, "before the first")
	a, b := open(), open()
	a.tcp.Add(5)
	a.tcp.Add(-2)
	b.udp.Add(7)
	expect(0, 0, "while both live")
	if err := errors.Join(unix.Munmap(a.mem), a.file.Close()); err != nil { // as the end of its process does
		t.Fatal(err)
	}
	expect(3, 0, "after the first died")
	expect(0, 0, "told once")
	if err := b.Close(dir); err != nil {
		t.Fatal(err)
	}
	expect(0, 0, "after a good end")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// Damaged journals are told by name and hold up neither the others nor a start.
// What is not one, and what never became one, is removed.
func TestDamagedJournals(t *testing.T) {
	dir := t.TempDir()
	whole := make([]byte, journalSize)
	counter(whole[:8]).Store(4)
	for name, text := range map[string][]byte{
		"userspace-1": []byte("short"), "userspace-3": whole, "userspace-4": {},
		unbornPrefix + "1": nil, "other": nil,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "userspace-2"), 0o700); err != nil { // cannot be read
		t.Fatal(err)
	}
	alive, err := os.Create(filepath.Join(dir, unbornPrefix+"2"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := unix.Flock(int(alive.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		tcp     int64
		damaged []string
	}{{4, []string{"userspace-1", "userspace-2", "userspace-4"}}, {0, []string{"userspace-2"}}} {
		tcp, udp, damaged := inherit(dir)
		if tcp != want.tcp || udp != 0 || len(damaged) != len(want.damaged) {
			t.Fatalf("%d and %d lost, %v", tcp, udp, damaged)
		}
		for i, name := range want.damaged {
			if !strings.Contains(damaged[i].Error(), filepath.Join(dir, name)) {
				t.Errorf("%s does not name %s", damaged[i], name)
			}
		}
	}
	var left []string
	files, err := os.ReadDir(dir)
	for _, f := range files {
		left = append(left, f.Name())
	}
	if diff := cmp.Diff([]string{"other", unbornPrefix + "2", "userspace-2"}, left); diff != "" || err != nil {
		t.Errorf("left (-want +got): %v\n%s", err, diff)
	}
}

// A flow that is refused while the proxy ends does not begin again: nobody would
// end it.
func TestNoFlowBeginsAfterTheEnd(t *testing.T) {
	ns := netns.ForTest(t, "node")
	p := proxyIn(t, ns)
	err := ns.Do(func() error { // silent; a refusal would end the flow
		c, err := net.ListenPacket("udp", "127.0.0.1:5353")
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	here := netip.MustParseAddr("127.0.0.1")
	key := flowKey{client: netip.AddrPortFrom(here, 5000), at: netip.MustParseAddrPort("127.0.0.2:53")}
	to := plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: here, Port: 5353}}}
	p.index.update(nil, []plan.Frontend{{Key: plan.Key{Addr: key.at.Addr(), Protocol: objects.UDP, Port: 53}, Outside: to}}, nil)
	p.datagram(key, nil)
	if n := p.closeFlows(); n != 1 {
		t.Fatalf("%d flows closed, want 1", n)
	}
	p.datagram(key, nil)
	if got := p.stats.read(); got.Begun != 1 || got.Flows != 0 || got.Turned != 1 {
		t.Errorf("after the end: %+v", got)
	}
	p.closeFlows()
}

// proxyIn is one that forwards datagrams in a namespace, and has no listener.
func proxyIn(t *testing.T, ns *netns.NS) *proxy {
	t.Helper()
	p, err := newProxy(New(Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}).cfg, &counters{})
	if err != nil {
		t.Fatal(err)
	}
	if p.journal, err = openJournal(""); err != nil {
		t.Fatal(err)
	}
	if p.space, err = enter(ns.FD()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.space.Close)
	return p
}

// A flow whose socket takes no more, for who is to get it next does not say where he is, holds up neither the
// listener nor other flows; while its own goroutine waits for room neither.
func TestFullFlowHoldsNobodyUp(t *testing.T) {
	need.Root(t)
	ns, there := netns.ForTest(t, "node"), netns.ForTest(t, "there")
	link := func(ns *netns.NS, addr string) netns.End {
		return netns.End{NS: ns, Name: "eth0", Addrs: []netip.Prefix{netip.MustParsePrefix(addr)}}
	}
	if err := netns.Veth(link(ns, "192.0.2.1/24"), link(there, "192.0.2.2/24")); err != nil {
		t.Fatal(err)
	}
	err := ns.Do(func() error { // it is asked for longer than this test takes
		return os.WriteFile("/proc/sys/net/ipv4/neigh/eth0/mcast_solicit", []byte("10000"), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := proxyIn(t, ns)
	t.Cleanup(func() { p.closeFlows() })
	flowTo := func(n byte, to string) flowKey {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 1, n}), 53)
		route := plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: netip.MustParseAddr(to), Port: 5353}}}
		p.index.update(nil, []plan.Frontend{{Key: plan.Key{Addr: at.Addr(), Protocol: objects.UDP, Port: 53}, Outside: route}}, nil)
		return flowKey{client: netip.MustParseAddrPort("192.0.2.1:5000"), at: at}
	}
	full, other := flowTo(1, "192.0.2.9"), flowTo(2, "192.0.2.2")
	p.datagram(full, []byte("x"))
	f := p.flows.all[full]
	if f == nil {
		t.Fatal("no flow begun")
	}
	if err := f.server.SetWriteBuffer(1); err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	go func() { // as the flow's own does
		defer close(waits)
		for range 20 {
			p.send(f, make([]byte, 1000))
		}
	}()
	select {
	case <-waits:
		t.Fatal("its socket takes what it is given")
	case <-time.After(time.Second): // it is full for good: who looks too early finds what this is about all the same
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			p.datagram(full, make([]byte, 1000))
		}
		p.datagram(other, []byte("x"))
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("a datagram to another endpoint still waits")
	}
	_ = f.server.Close()
	<-waits
	<-done
	if got := p.stats.read(); got.Begun != 2 {
		t.Errorf("begun are %d flows, want 2", got.Begun)
	}
}

// Why a flow does not begin is said once, and again when its frontend has changed.
func TestFlowNotBegun(t *testing.T) {
	var said bytes.Buffer
	p, err := newProxy(New(Config{Logger: slog.New(slog.NewTextHandler(&said, nil))}).cfg, &counters{})
	if err != nil {
		t.Fatal(err)
	}
	p.room = semaphore.NewWeighted(perFlow - 1)
	here := netip.MustParseAddr("127.0.0.1")
	k := plan.Key{Addr: here, Protocol: objects.UDP, Port: 53}
	to := plan.Route{Action: plan.Forward, Endpoints: []plan.Endpoint{{Addr: here, Port: 5353}}}
	p.index.update(nil, []plan.Frontend{{Key: k, Outside: to}}, nil)
	for i, change := range []map[plan.Key]bool{nil, {{Addr: here, Protocol: objects.UDP, Port: 54}: true}, {k: true}} {
		p.recheck(false, change)
		for range 2 {
			p.datagram(flowKey{client: netip.AddrPortFrom(here, 5000), at: netip.AddrPortFrom(here, 53)}, nil)
		}
		if n, want := strings.Count(said.String(), "RLIMIT_NOFILE"), []int{1, 1, 2}[i]; n != want {
			t.Errorf("after change %d: said %d times, want %d: %s", i, n, want, &said)
		}
	}
	if got := p.stats.read(); got.Begun != 0 || got.Turned != 6 {
		t.Errorf("%+v", got)
	}
}

func TestDeltaCancels(t *testing.T) {
	e := func(k string) Element { return Element{key: k} }
	d := newDelta()
	d.replace([]Element{e("stays"), e("goes")}, []Element{e("stays"), e("comes")})
	d.replace([]Element{e("comes")}, []Element{e("goes")})
	if d.size() != 0 {
		t.Errorf("left: %v", d)
	}
}

func TestLastOfPrefix(t *testing.T) {
	for prefix, want := range map[string]string{
		"10.0.0.0/8": "10.255.255.255", "192.0.2.7/32": "192.0.2.7", "0.0.0.0/0": "255.255.255.255",
		"10.1.2.3/19": "10.1.31.255", "fd00::/65": "fd00::7fff:ffff:ffff:ffff", "::/0": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
	} {
		if got := last(netip.MustParsePrefix(prefix)); got != netip.MustParseAddr(want) {
			t.Errorf("%s ends with %s, want %s", prefix, got, want)
		}
	}
}

// A large change is split between frontends, and what all share comes first, then what is
// wanted most.
func TestLargeDelta(t *testing.T) {
	var writes []*delta
	d := newDelta()
	d.replace(nil, nodeElements(plan.Node{LocalPods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}}))
	for i := range 5000 {
		f := plan.Frontend{
			Key:     plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: objects.TCP, Port: 80},
			Outside: plan.Route{Action: plan.Reject},
		}
		old := frontendElements(f)
		f.Outside.Action = plan.Drop
		d.replace(old, frontendElements(f))
	}
	last := frontendElements(plan.Frontend{Key: plan.Key{Addr: netip.MustParseAddr("10.99.0.1"), Protocol: objects.TCP, Port: 443}, Outside: plan.Route{Action: plan.Forward}})
	d.replace(nil, last)
	d.first = map[string]bool{last[0].owner(): true}
	err := split(d, perWrite, func(part *delta) error { writes = append(writes, part); return nil })
	if err != nil {
		t.Fatal(err)
	}
	total := newDelta()
	for i, w := range writes {
		dels := map[string]bool{}
		for e := range w.del {
			dels[e.owner()] = true
			total.del[e] = true
		}
		for e := range w.add {
			if e.owner() == "" && i > 0 {
				t.Errorf("%s comes in part %d", e, i)
			}
			if d.first[e.owner()] && i > 0 {
				t.Errorf("%s, which is wanted most, comes in part %d", e, i)
			}
			if e.owner() != "" && !d.first[e.owner()] && !dels[e.owner()] {
				t.Errorf("%s comes without its old state", e)
			}
			total.add[e] = true
		}
	}
	if diff := cmp.Diff([]int{len(d.add), len(d.del)}, []int{len(total.add), len(total.del)}); diff != "" || len(writes) < 4 {
		t.Errorf("%d writes: %s", len(writes), diff)
	}
}
