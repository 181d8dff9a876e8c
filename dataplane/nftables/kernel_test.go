package nftables_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// nft runs the program inside a namespace.
func nft(t testing.TB, ns *netns.NS, args ...string) (string, error) {
	t.Helper()
	need.Program(t, "nft")
	var out []byte
	err := ns.Do(func() error {
		var err error
		out, err = exec.CommandContext(t.Context(), "nft", args...).CombinedOutput()
		return err
	})
	return string(out), err
}

func mustNft(t testing.TB, ns *netns.NS, args ...string) string {
	t.Helper()
	out, err := nft(t, ns, args...)
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func newTarget(t testing.TB, ns *netns.NS) *nftables.Target {
	target := nftables.New(nftables.Config{Logger: logger(t), NetNS: ns.FD()})
	t.Cleanup(func() { _ = target.Close() })
	return target
}

func apply(t testing.TB, target *nftables.Target, old, new *plan.Plan) {
	t.Helper()
	if err := target.Apply(t.Context(), old, new); err != nil {
		t.Fatal(err)
	}
}

func dump(t testing.TB, ns *netns.NS) string {
	t.Helper()
	out, err := nftables.Dump(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func endpoint(i, k int) plan.Endpoint {
	return plan.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 200 + byte(i>>16), byte(i >> 8), byte(i)}), Port: uint16(8000 + k)}
}

// many is a plan of n ClusterIPs with k endpoints each.
func many(n, k int) *plan.Plan {
	p := &plan.Plan{Node: plan.Node{Addrs: []netip.Addr{addr("192.0.2.1")}}, Services: map[objects.Name]plan.Service{}}
	for i := range n {
		p.Services[name(i)] = service(i, k)
	}
	return p
}

func name(i int) objects.Name { return objects.Name{Namespace: "bench", Name: fmt.Sprint("svc-", i)} }

func service(i, k int) plan.Service {
	f := plan.Frontend{
		Key:     plan.Key{Addr: netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)}), Protocol: objects.TCP, Port: 80},
		Outside: plan.Route{Action: plan.Forward},
	}
	for j := range k {
		f.Outside.Endpoints = append(f.Outside.Endpoints, endpoint(i, j))
	}
	return plan.Service{Frontends: []plan.Frontend{f}}
}

// part is the plan of one Service of a larger plan.
func part(p *plan.Plan, i int, s plan.Service) *plan.Plan {
	return &plan.Plan{Node: p.Node, Services: map[objects.Name]plan.Service{name(i): s}}
}

// everyKind has a frontend for each kind of chain, map and set, in both families.
func everyKind() *plan.Plan {
	out := &plan.Plan{Node: plan.Node{
		Addrs:        []netip.Addr{addr("192.0.2.1"), addr("2001:db8:2::1")},
		LocalPods:    prefixes("10.244.0.0/16", "fd00:10:244::/56"),
		ServiceCIDRs: prefixes("10.96.0.0/16", "fd00:10:96::/112"),
	}, Services: map[objects.Name]plan.Service{}}
	v4 := kinds("10.96.0.10", "198.51.100.10", prefixes("192.0.2.0/28", "203.0.113.7/32"), "10.244.1.2", "10.244.2.2")
	v6 := kinds("fd00:10:96::10", "2001:db8:100::10", prefixes("2001:db8:2::/64"), "fd00:10:244:1::2", "fd00:10:244:2::2")
	out.Services[name(4)], out.Services[name(6)] = plan.Service{Frontends: v4}, plan.Service{Frontends: v6}
	none := plan.Route{Action: plan.Reject}
	out.Services[name(5)] = plan.Service{Frontends: []plan.Frontend{ // that refuse, in each view
		{Key: plan.Key{Addr: addr("10.96.0.50"), Protocol: objects.TCP, Port: 80}, Outside: none},
		{Kind: plan.NodePort, Key: plan.Key{Protocol: objects.TCP, Port: 30500}, Outside: none},
		{Key: plan.Key{Addr: addr("10.96.0.51"), Protocol: objects.TCP, Port: 80}, Outside: none, Inside: &none},
	}}
	return out
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// kinds are the frontends of a Service with external policy Local and affinity,
// and of one with a second port that has neither.
func kinds(vip, lb string, sources []netip.Prefix, here, there string) []plan.Frontend {
	v6 := addr(vip).Is6()
	group := plan.Key{IPv6: v6, Addr: addr(vip), Protocol: objects.TCP, Port: 80}
	local := plan.Endpoint{Addr: addr(here), Port: 8080, Local: true}
	both := []plan.Endpoint{local, {Addr: addr(there), Port: 8080}}
	forward := func(m plan.Masquerade, eps ...plan.Endpoint) plan.Route {
		return plan.Route{Action: plan.Forward, Endpoints: eps, Masquerade: m}
	}
	short := forward(plan.MasqNode, both...)
	at := func(a string, p objects.Protocol, port uint16) plan.Key {
		k := plan.Key{IPv6: v6, Protocol: p, Port: port}
		if a != "" {
			k.Addr = addr(a)
		}
		return k
	}
	sticky := func(kind plan.Kind, k plan.Key, out plan.Route, in *plan.Route) plan.Frontend {
		return plan.Frontend{Kind: kind, Key: k, Outside: out, Inside: in, Group: group, Affinity: 3 * time.Hour}
	}
	closed := sticky(plan.LoadBalancer, at(lb, objects.TCP, 80), forward(plan.KeepSource, local), &short)
	closed.Restricted, closed.Sources = true, sources
	return []plan.Frontend{
		{Kind: plan.ClusterIP, Key: at(vip, 0, 0), Outside: plan.Route{Action: plan.Reject}},
		sticky(plan.ClusterIP, group, forward(plan.MasqOffCluster, both...), nil),
		closed,
		sticky(plan.NodePort, at("", objects.TCP, 30080), forward(plan.KeepSource, local), &short),
		{Kind: plan.ClusterIP, Key: at(vip, objects.UDP, 53), Outside: forward(plan.MasqOffCluster, both...)},
		{Kind: plan.LoadBalancer, Key: at(lb, objects.UDP, 53), Outside: forward(plan.MasqAlways, both...)},
		{Kind: plan.LoadBalancer, Key: at(lb, objects.UDP, 54), Outside: forward(plan.KeepSource, local), Inside: &short},
		{Kind: plan.NodePort, Key: at("", objects.UDP, 30053), Outside: forward(plan.MasqAlways, both...)},
		{Kind: plan.NodePort, Key: at("", objects.UDP, 30054), Outside: plan.Route{Action: plan.Drop}, Inside: &short},
	}
}

// The administrator's nft must be able to print everything we make. Version
// 1.0.6 aborts on rules that the kernel takes without complaint.
func TestNftLists(t *testing.T) {
	ns := netns.ForTest(t, "list")
	apply(t, newTarget(t, ns), nil, everyKind())
	out := mustNft(t, ns, "list", "ruleset")
	for _, word := range []string{
		"chain services-2 {", "chain services-inside-2 {", "chain nodeports-2 {", "chain nodeports-inside-2 {",
		"chain sticky-services-2 {", "chain sticky-services-1 {", "chain sticky-services-inside-2 {", "chain sticky-nodeports-1 {", "chain sticky-nodeports-inside-2 {",
		"chain remember-10800s {", "update @affinity", "map @service-slots", "@masquerade-off-cluster", "@hairpin", "@restricted-sources drop",
	} {
		if n := strings.Count(out, word); n < 2 { // once in each family
			t.Errorf("%q is listed %d times, want it in both tables", word, n)
		}
	}
	mustNft(t, ns, "--json", "list", "ruleset")

	if version := mustNft(t, ns, "--version"); !strings.Contains(version, "v1.0.6") {
		t.Skipf("the golden listing is of nft v1.0.6, here is %s", version)
	}
	golden := filepath.Join("testdata", "ruleset.nft")
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out); diff != "" {
		t.Errorf("rule set (-golden +listed):\n%s", diff)
	}
}

// So must everything that the cases make, all at once.
func TestNftListsCases(t *testing.T) {
	all, err := dptest.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	p := dptest.AtOnce(all)
	ns := netns.ForTest(t, "cases")
	apply(t, newTarget(t, ns), nil, p)
	mustNft(t, ns, "list", "ruleset")
	if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
}

// size counts the lines of the rule set without its elements, and among them the
// chains and the sets.
func size(t *testing.T, ns *netns.NS) [3]int {
	t.Helper()
	out := mustNft(t, ns, "--terse", "list", "ruleset")
	return [3]int{strings.Count(out, "\n"), strings.Count(out, "\tchain "), strings.Count(out, "\tset ") + strings.Count(out, "\tmap ")}
}

// The kernel walks a table's sets and chains by name: their number must not
// depend on the number of Services (kubernetes issue 139513).
func TestSizeIsConstant(t *testing.T) {
	ns := netns.ForTest(t, "size")
	target, one := newTarget(t, ns), many(1, 3)
	apply(t, target, nil, one)
	small := size(t, ns)
	apply(t, target, one, many(3000, 3))
	if large := size(t, ns); small != large {
		t.Errorf("lines, chains, sets: %v with one Service, %v with 3000", small, large)
	}
	if got := strings.Count(dump(t, ns), " : services-3\n"); got != 3000 {
		t.Errorf("%d Services in the kernel, want 3000", got)
	}
	// The administrator's nft prints them all, at any size.
	if got := strings.Count(mustNft(t, ns, "list", "ruleset"), " . tcp . 80 : 1:3"); got != 3000 {
		t.Errorf("%d Services are listed, want 3000", got)
	}
}

// A large plan is split, and a Target that starts with it in the kernel, or with
// half of it and something else, ends with the same.
func TestTakeOverLarge(t *testing.T) {
	ns := netns.ForTest(t, "large")
	p := many(2500, 4)
	apply(t, newTarget(t, ns), nil, p)
	want := nftables.Render(p)
	if diff := cmp.Diff(want, dump(t, ns)); diff != "" {
		t.Fatalf("kernel (-want +got):\n%s", diff)
	}
	other := many(1500, 2)
	other.Services[name(70000)] = service(70000, 3)
	apply(t, newTarget(t, ns), nil, other)
	if diff := cmp.Diff(nftables.Render(other), dump(t, ns)); diff != "" {
		t.Errorf("kernel after taking over another plan (-want +got):\n%s", diff)
	}
	apply(t, newTarget(t, ns), nil, p)
	if diff := cmp.Diff(want, dump(t, ns)); diff != "" {
		t.Errorf("kernel after taking it back (-want +got):\n%s", diff)
	}
}

// Taking over writes what differs and nothing else, not even the rules: the
// kernel's own event stream shows what is written.
func TestTakeOverWritesDifferencesOnly(t *testing.T) {
	ns := netns.ForTest(t, "quiet")
	p := everyKind()
	for n, s := range many(50, 4).Services {
		p.Services[n] = s
	}
	apply(t, newTarget(t, ns), nil, p)
	if got := events(t, ns, func() { apply(t, newTarget(t, ns), nil, p) }); len(got) > 0 {
		t.Errorf("a restart writes %v", got)
	}
	changed := service(3, 4)
	changed.Frontends[0].Outside.Endpoints[2] = endpoint(9999, 0)
	p.Services[name(3)] = changed
	want := map[int]int{unix.NFT_MSG_NEWSETELEM: 1, unix.NFT_MSG_DELSETELEM: 1, unix.NFT_MSG_NEWGEN: 1}
	if diff := cmp.Diff(want, events(t, ns, func() { apply(t, newTarget(t, ns), nil, p) })); diff != "" {
		t.Errorf("a restart with one endpoint replaced, kinds of messages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
}

// events counts the kinds of messages the kernel sends about what do does.
func events(t *testing.T, ns *netns.NS, do func()) map[int]int {
	t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: ns.FD()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	do()
	mustNft(t, ns, "add table ip witness") // its event is the end
	defer mustNft(t, ns, "delete table ip witness")
	n := map[int]int{}
	for {
		msgs, err := conn.Receive()
		if err != nil {
			t.Fatalf("wait for the witness: %v", err)
		}
		for _, m := range msgs {
			if bytes.Contains(m.Data, []byte("witness")) {
				return n
			}
			n[int(m.Header.Type&0xff)]++
		}
	}
}

// Other tables are nobody's business, and ours may have been left by another
// version with sets of other types.
func TestForeignAndIncompatibleTables(t *testing.T) {
	ns := netns.ForTest(t, "foreign")
	mustNft(t, ns, "add table ip other; add chain ip other c; add rule ip other c counter")
	mustNft(t, ns, "add table ip plumbline; add set ip plumbline services { type ipv4_addr; }; add chain ip plumbline old { type nat hook prerouting priority 5; }")
	foreign := mustNft(t, ns, "list", "table", "ip", "other")
	p := many(3, 2)
	apply(t, newTarget(t, ns), nil, p)
	if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
	if out := mustNft(t, ns, "list", "table", "ip", "plumbline"); strings.Contains(out, "chain old") {
		t.Error("the incompatible table was not replaced")
	}
	for range 2 { // the second time there is nothing to remove
		if err := nftables.Clean(ns.FD()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(foreign, mustNft(t, ns, "list", "ruleset")); diff != "" {
			t.Errorf("after cleaning, only the other table is left (-want +got):\n%s", diff)
		}
	}
}

// A table taken away from under a Target makes the next change fail; the one
// after, complete, repairs everything.
func TestRepair(t *testing.T) {
	ns := netns.ForTest(t, "repair")
	target, p := newTarget(t, ns), many(5, 2)
	apply(t, target, nil, p)
	mustNft(t, ns, "delete", "table", "ip", "plumbline")
	old, changed := part(p, 1, p.Services[name(1)]), part(p, 1, service(1, 3))
	if err := target.Apply(t.Context(), old, changed); err == nil {
		t.Fatal("a change of a table that is gone succeeded")
	}
	if err := target.Apply(t.Context(), old, changed); err == nil {
		t.Fatal("a difference was applied to an unknown state")
	}
	p.Services[name(1)] = changed.Services[name(1)]
	apply(t, target, nil, p)
	if diff := cmp.Diff(nftables.Render(p), dump(t, ns)); diff != "" {
		t.Errorf("kernel (-want +got):\n%s", diff)
	}
}

func TestCanceled(t *testing.T) {
	ns := netns.ForTest(t, "canceled")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newTarget(t, ns).Apply(ctx, nil, many(1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if got := dump(t, ns); got != "" {
		t.Errorf("something was written: %s", got)
	}
}

// Connections are made without a pause while the Service shrinks and grows from
// every side. Every endpoint answers all the time, so every connection must too.
//
// At most one change is made while a connection is. If two commits fall into one packet's
// way through the chains, its SYN may be lost: of 720 000 connections during 19 000 changes
// a second one was, during 800 a second none.
//
// Each connection has a source port of its own. The kernel's choice is random, and a port
// that was left this very moment is taken again now and then: a SYN that overtakes the RST
// before it on another processor meets the old connection, and is sent again. That was so
// in one of twelve runs, without any change.
func TestNoConnectionLostWhileChanging(t *testing.T) {
	n := dptest.NewNet(t)
	target := nftables.New(nftables.Config{Logger: logger(t), NetNS: n.Node.FD()})
	defer target.Close()
	at := func(eps ...string) *plan.Plan {
		r := plan.Route{Action: plan.Forward}
		for _, e := range eps {
			ap := netip.MustParseAddrPort(e)
			r.Endpoints = append(r.Endpoints, plan.Endpoint{Addr: ap.Addr(), Port: ap.Port()})
		}
		f := plan.Frontend{Key: plan.Key{Addr: addr("10.96.0.10"), Protocol: objects.TCP, Port: 80}, Outside: r}
		return &plan.Plan{Services: map[objects.Name]plan.Service{name(0): {Frontends: []plan.Frontend{f}}}}
	}
	states := []*plan.Plan{
		at("10.244.1.2:80", "10.244.1.6:80", "10.244.2.2:80", "10.244.2.3:80"),
		at("10.244.2.3:80"), at("10.244.1.2:80", "10.244.2.3:80"), at("10.244.1.2:80"),
		at("10.244.1.6:80", "10.244.2.2:80", "10.244.2.3:80"), at("10.244.1.6:80"),
	}
	apply(t, target, nil, states[0])
	for _, a := range []string{"10.244.1.2:80", "10.244.1.6:80", "10.244.2.2:80", "10.244.2.3:80"} {
		serve(t, n, netip.MustParseAddrPort(a))
	}
	const clients, connections = 4, 3000
	var wg sync.WaitGroup
	var making [clients]atomic.Int64 // odd while a client makes a connection
	for c := range clients {
		wg.Go(func() {
			err := n.Place(dptest.Outside).Do(func() error {
				for i := range connections {
					making[c].Add(1)
					err := dial(20_000+c*connections+i, "10.96.0.10:80")
					making[c].Add(1)
					if err != nil {
						return fmt.Errorf("connection %d: %w", i, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	changes := 0
	for running := true; running; changes++ {
		apply(t, target, states[changes%len(states)], states[(changes+1)%len(states)])
		for c := range making {
			for now := making[c].Load(); now%2 == 1 && making[c].Load() == now; {
				time.Sleep(10 * time.Microsecond)
			}
		}
		select {
		case <-done:
			running = false
		default:
		}
	}
	if changes < 50 {
		t.Errorf("only %d changes during %d connections: the test proves little", changes, clients*connections)
	}
	t.Logf("%d changes during %d connections", changes, clients*connections)
}

// An external address that is one of the node's beats the node port with its
// number, and the node port's masquerading is not done for it.
func TestNodePortInTheShadow(t *testing.T) {
	n := dptest.NewNet(t)
	node, pod := dptest.Self.Addrs()[0], netip.AddrPortFrom(dptest.PodA.Addrs()[0], 8080)
	to := func(m plan.Masquerade, at netip.AddrPort) plan.Route {
		return plan.Route{Action: plan.Forward, Masquerade: m, Endpoints: []plan.Endpoint{{Addr: at.Addr(), Port: at.Port()}}}
	}
	key := plan.Key{Protocol: objects.UDP, Port: 30080}
	exact := key
	exact.Addr = node
	p := &plan.Plan{Node: plan.Node{Addrs: []netip.Addr{node}}, Services: map[objects.Name]plan.Service{name(1): {Frontends: []plan.Frontend{
		{Kind: plan.ExternalIP, Key: exact, Outside: to(plan.KeepSource, pod)},
		{Kind: plan.NodePort, Key: key, Outside: to(plan.MasqAlways, netip.MustParseAddrPort("10.244.1.6:8080"))},
	}}}}
	apply(t, newTarget(t, n.Node), nil, p)
	var server net.PacketConn
	err := n.Home(pod.Addr()).Do(func() (err error) {
		server, err = net.ListenPacket("udp4", pod.String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	err = n.Place(dptest.Outside).Do(func() error {
		c, err := net.Dial("udp4", netip.AddrPortFrom(node, 30080).String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("who"))
		return err
	})
	if err := errors.Join(err, server.SetReadDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	_, from, err := server.ReadFrom(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := from.(*net.UDPAddr).AddrPort().Addr(), dptest.Outside.Addrs()[0]; got != want {
		t.Errorf("the source is %s, want %s", got, want)
	}
}

// dial makes a connection with its first SYN.
func dial(port int, to string) error {
	d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{Port: port}}
	conn, err := d.Dial("tcp4", to)
	if err != nil {
		return err
	}
	again, err := sentAgain(conn.(*net.TCPConn))
	if err == nil && again > 0 {
		err = fmt.Errorf("connect to %s: %d packets were sent again", to, again)
	}
	// A reset instead of TIME_WAIT, of which there would be thousands.
	_ = conn.(*net.TCPConn).SetLinger(0)
	return errors.Join(err, conn.Close())
}

func sentAgain(conn *net.TCPConn) (n uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var info *unix.TCPInfo
	var failed error
	err = raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return info.Total_retrans, nil
}

func serve(t *testing.T, n *dptest.Net, at netip.AddrPort) {
	t.Helper()
	err := n.Home(at.Addr()).Do(func() error {
		ln, err := net.Listen("tcp4", at.String())
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
