package balancer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/lbprovider/records"
)

// load sends rate new connections a second for d, open loop, and returns how
// many were sent and each failure.
func load(ctx context.Context, ip string, port int32, rate int, d time.Duration) (sent map[string]string, failures []string) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sent = map[string]string{}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for range int(d.Seconds() * float64(rate)) {
		<-tick.C
		wg.Go(func() {
			body, src, err := ask(ctx, "", ip, port)
			mu.Lock()
			defer mu.Unlock()
			sent[src] = body
			if err != nil {
				failures = append(failures, err.Error())
			}
		})
	}
	wg.Wait()
	return sent, failures
}

// Under 200 connections a second an empty node is added (at runtime), the
// source ranges change (a reload) and a node goes: nothing is lost, nothing
// reaches the node without endpoints, and every connection has a record.
func TestNodeAddedAndReloadUnderLoadLoseNothing(t *testing.T) {
	r := newRig(t)
	a, b := newBackend(t, "node-a", "127.78.0.1", true, true), newBackend(t, "node-b", "127.78.0.2", true, true)
	empty := newBackend(t, "node-empty", "127.78.0.3", false, false) // refuses: one connection there is one lost
	svc := testService()
	ip := r.ensure(svc, a, b)
	before := r.running(svc)

	steps := make(chan error, 1)
	go func() {
		steps <- func() error {
			time.Sleep(time.Second) // load before the first step
			if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a, b, empty)); err != nil {
				return fmt.Errorf("add a node: %w", err)
			}
			if pid := r.running(svc).PID; pid != before.PID {
				return fmt.Errorf("adding a node reloaded: pid %d, was %d", pid, before.PID)
			}
			time.Sleep(time.Second)
			ranged := testService(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8"} })
			for range 3 {
				if _, err := r.Of(ranged).Ensure(t.Context(), ranged, nodesOf(a, b, empty)); err != nil {
					return fmt.Errorf("reload: %w", err)
				}
				if _, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a, b, empty)); err != nil {
					return fmt.Errorf("reload back: %w", err)
				}
			}
			if pid := r.running(svc).PID; pid == before.PID {
				return fmt.Errorf("no reload happened")
			}
			if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a, empty)); err != nil {
				return fmt.Errorf("remove a node: %w", err)
			}
			return nil
		}()
	}()
	sent, failures := load(t.Context(), ip, 18188, 200, 6*time.Second)
	if err := <-steps; err != nil {
		t.Fatal(err)
	}
	if len(failures) > 0 {
		t.Errorf("%d of %d requests were lost, the first: %s", len(failures), len(sent), failures[0])
	}
	if a.served.Load() == 0 || b.served.Load() == 0 {
		t.Errorf("served %d and %d: the load balancer does not balance", a.served.Load(), b.served.Load())
	}
	checkConns(t, r, sent)
}

// checkConns wants one record for each request, with the node that answered.
func checkConns(t *testing.T, r *rig, sent map[string]string) {
	t.Helper()
	got := map[string]string{}
	await(t, func() (string, bool) {
		conns, err := record.ReadFile[record.Conn](filepath.Join(r.records, records.ConnsFile))
		if err != nil {
			return err.Error(), false
		}
		for _, c := range conns {
			got[c.Client.String()] = c.Server
			if c.LB != "shop/web" || c.Frontend != "tcp-18188-v4" || c.Accepted > c.At || c.At-c.Accepted > int64(10*time.Second) {
				t.Fatalf("record %+v", c)
			}
		}
		missing := 0
		for src := range sent { // others may be recorded too
			if _, is := got[src]; !is {
				missing++
			}
		}
		return fmt.Sprintf("%d of %d connections are not recorded", missing, len(sent)), missing == 0
	})
	for src, node := range sent {
		if got[src] != node {
			t.Fatalf("connection from %s is recorded for %q, %q answered", src, got[src], node)
		}
	}
}

// patience is how long a test waits for what must come.
const patience = time.Minute

func await(t *testing.T, ok func() (string, bool)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		state, done := ok()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", patience, state)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A server that becomes healthy later gets its share, without the provider.
func TestAddedNodeServesAfterItsFirstGoodCheck(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.1.1", true, true)
	late := newBackend(t, "node-late", "127.78.1.2", false, true)
	svc := testService()
	ip := r.ensure(svc, a)
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a, late)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
			t.Fatal(err)
		}
	}
	if n := late.served.Load(); n != 0 {
		t.Fatalf("a node that never passed a check served %d requests", n)
	}
	late.healthy.Store(true)
	r.awaitUp(svc, "node-late", true)
	for range 10 {
		if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
			t.Fatal(err)
		}
	}
	if n := late.served.Load(); n != 5 {
		t.Errorf("the late node served %d of 10 requests, want 5", n)
	}
	// It goes, and comes back unhealthy: again no traffic.
	late.healthy.Store(false)
	for _, nodes := range [][]*v1.Node{nodesOf(a), nodesOf(a, late)} {
		if err := r.Of(svc).Update(t.Context(), svc, nodes); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
			t.Fatal(err)
		}
	}
	if n := late.served.Load(); n != 5 {
		t.Errorf("the node came back unhealthy and served %d more", n-5)
	}
}

// A node that is removed keeps the connections it has, and can come back while
// it drains.
func TestRemovedNodeDrains(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.2.1", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	c := dial(t, ip)
	b := newBackend(t, "node-b", "127.78.2.2", true, true)
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(b)); err != nil {
		t.Fatal(err)
	}
	r.awaitUp(svc, "node-b", true)
	if now := r.running(svc); len(now.Servers) != 2 || !slices.ContainsFunc(now.Servers, func(s haproxy.ServerState) bool { return s.Node() == "node-a" && s.Maint }) {
		t.Errorf("servers %+v, want node-a in maintenance", now.Servers)
	}
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a, b)); err != nil {
		t.Fatal(err)
	}
	r.awaitUp(svc, "node-a", true)
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	if n, err := c.Read(buf); err != nil || !strings.Contains(string(buf[:n]), "200 OK") {
		t.Errorf("the old connection was cut: %q, %v", buf[:n], err)
	}
}

// The connections of a removed node end after the profile's drain time and not before, also
// those that a worker has which a reload replaced; those of other nodes go on.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*v1.Service)
	}{
		{"at runtime", func(*v1.Service) {}},
		{"with a reload", func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRigAt(t, "127.77.5.0/24")
			r.cfg.Profile.Drain = 3 * time.Second
			a, b := newBackend(t, "node-a", "127.78.24.1", true, true), newBackend(t, "node-b", "127.78.24.2", true, true)
			svc := testService()
			ip := r.ensure(svc, a)
			r.awaitUp(svc, "node-a", true)
			ofA := dial(t, ip)
			r.ensure(svc, a, b)
			r.awaitUp(svc, "node-b", true)
			var ofB net.Conn
			for served := b.served.Load(); b.served.Load() == served; {
				ofB = dial(t, ip)
				request(t, ofB)
			}
			request(t, ofA)
			c.change(svc)
			removed := time.Now()
			r.ensure(svc, b)
			request(t, ofA)
			if n, err := ofA.Read(make([]byte, 1)); err == nil || n > 0 {
				t.Errorf("read %d bytes, %v", n, err)
			}
			if after := time.Since(removed); after < r.cfg.Profile.Drain {
				t.Errorf("it ended after %s already", after)
			}
			request(t, ofB)
			if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
				t.Error(err)
			}
		})
	}
}

// A change that fails takes nothing away: the connections of nodes that were to go live on, and
// begin to drain when it succeeds.
func TestFailedChangeDrainsNothing(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.8.0/24")
	r.cfg.Profile.Drain = time.Second
	a, b := newBackend(t, "node-a", "127.78.27.1", true, true), newBackend(t, "node-b", "127.78.27.2", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	r.awaitUp(svc, "node-a", true)
	ofA := dial(t, ip)
	request(t, ofA)
	const port = 18189
	taken, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	other := svc.DeepCopy()
	other.Spec.Ports[0].Port = port
	// A reload that fails takes far longer than the drain.
	if _, err := r.Of(other).Ensure(t.Context(), other, nodesOf(b)); err == nil {
		t.Fatal("a reload did not fail though its port is taken")
	}
	for until := time.Now().Add(2*drainEvery + r.cfg.Profile.Drain); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		request(t, ofA)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	r.ensure(other, b)
	if n, err := ofA.Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if after := time.Since(removed); after < r.cfg.Profile.Drain {
		t.Errorf("it ended after %s already", after)
	}
}

// A load balancer that is made anew has no connections of a node that went before, and ends none
// of it that has come back.
func TestNewInstanceDrainsNothing(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.9.0/24")
	r.cfg.Profile.Drain = 2 * time.Second
	a, b := newBackend(t, "node-a", "127.78.28.1", true, true), newBackend(t, "node-b", "127.78.28.2", true, true)
	svc := testService()
	r.ensure(svc, a, b)
	r.ensure(svc, b)
	if err := r.cfg.Instances.Stop(t.Context(), r.Of(svc).Name()); err != nil {
		t.Fatal(err)
	}
	ip := r.ensure(svc, a)
	r.awaitUp(svc, "node-a", true)
	ofA := dial(t, ip)
	for until := time.Now().Add(r.cfg.Profile.Drain + 2*drainEvery); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		request(t, ofA)
	}
}

// Where a port goes and its node stays, the port's connections have no such end.
func TestRemovedPortDoesNotDrain(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.7.0/24")
	r.cfg.Profile.Drain = time.Second
	a, b := newBackend(t, "node-a", "127.78.26.1", true, true), newBackend(t, "node-b", "127.78.26.2", true, true)
	svc := testService()
	ip := r.ensure(svc, a, b)
	r.awaitUp(svc, "node-a", true)
	r.awaitUp(svc, "node-b", true)
	conns := map[*backend]net.Conn{}
	for len(conns) < 2 {
		before := map[*backend]int64{a: a.served.Load(), b: b.served.Load()}
		c := dial(t, ip)
		request(t, c)
		for n, was := range before {
			if n.served.Load() > was {
				conns[n] = c
			}
		}
	}
	svc.Spec.Ports[0].Port = 18189
	r.ensure(svc, a)
	if n, err := conns[b].Read(make([]byte, 1)); err == nil || n > 0 {
		t.Errorf("of the node that went: read %d bytes, %v", n, err)
	}
	for until := time.Now().Add(2 * drainEvery); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		request(t, conns[a])
	}
}

// request wants an answer over a connection that stays.
func request(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("answered %s, %v", resp.Status, err)
	}
}

func TestSourceOutsideRangesNeverGetsIn(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.3.1", true, true)
	svc := testService(func(s *v1.Service) { s.Spec.LoadBalancerSourceRanges = []string{" 127.90.0.0/24 "} })
	ip := r.ensure(svc, a)
	for range 20 {
		if _, _, err := ask(t.Context(), "127.90.1.7", ip, 18188); err == nil {
			t.Fatal("a source outside the ranges got an answer")
		}
	}
	if n := a.served.Load(); n != 0 {
		t.Fatalf("%d requests from outside the ranges reached the node", n)
	}
	if _, _, err := ask(t.Context(), "127.90.0.7", ip, 18188); err != nil {
		t.Errorf("a source inside the ranges: %v", err)
	}
	// The range moves: what was in is out.
	svc.Spec.LoadBalancerSourceRanges = []string{"127.90.1.0/24"}
	r.ensure(svc, a)
	if _, _, err := ask(t.Context(), "127.90.0.7", ip, 18188); err == nil {
		t.Error("a source of the former range got an answer")
	}
	if _, _, err := ask(t.Context(), "127.90.1.7", ip, 18188); err != nil {
		t.Errorf("a source of the new range: %v", err)
	}
}

func TestClientIPAffinity(t *testing.T) {
	r := newRig(t)
	a, b := newBackend(t, "node-a", "127.78.4.1", true, true), newBackend(t, "node-b", "127.78.4.2", true, true)
	svc := testService(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	ip := r.ensure(svc, a, b)
	nodes := map[string]bool{}
	was := map[string]string{}
	for i := range 8 {
		from := fmt.Sprintf("127.91.0.%d", i+1)
		first, _, err := ask(t.Context(), from, ip, 18188)
		if err != nil {
			t.Fatal(err)
		}
		nodes[first], was[from] = true, first
		for range 3 {
			if again, _, err := ask(t.Context(), from, ip, 18188); err != nil || again != first {
				t.Errorf("%s went to %s and then to %s (%v)", from, first, again, err)
			}
		}
	}
	if len(nodes) != 2 {
		t.Errorf("all clients went to %v", nodes)
	}
	svc.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8"} // a reload
	r.ensure(svc, a, b)
	for from, first := range was {
		if again, _, err := ask(t.Context(), from, ip, 18188); err != nil || again != first {
			t.Errorf("%s went to %s and after a reload to %s (%v)", from, first, again, err)
		}
	}
	// Nodes come; clients stay where they are.
	more := []*backend{a, b}
	for i := range 4 {
		more = append(more, newBackend(t, fmt.Sprintf("node-%d", i), fmt.Sprintf("127.78.4.%d", i+3), true, true))
	}
	r.ensure(svc, more...)
	for from, first := range was {
		if again, _, err := ask(t.Context(), from, ip, 18188); err != nil || again != first {
			t.Errorf("%s went to %s and with more nodes to %s (%v)", from, first, again, err)
		}
	}
}

// 400 clients keep their nodes over 20 reloads while nodes leave and come: only the
// clients of a node that leaves move, and they keep what they move to.
func TestClientIPAffinityOverReloads(t *testing.T) {
	t.Parallel()
	r, all := newRigAt(t, "127.77.10.0/24"), manyNodes(t, "127.78.6")
	svc := testService(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	p := placement{t: t, ip: r.ensure(svc, all...), was: map[string]string{}}
	p.look("at first", "")
	r.awaitLearned(svc)
	for round := 1; round <= 20; round++ {
		there := all
		if round%2 == 1 { // every second time one leaves, which comes back with the next reload
			k := round / 2 % len(all)
			there = slices.Delete(slices.Clone(all), k, k+1)
			r.ensure(svc, there...)
			p.look(fmt.Sprintf("a node left before reload %d", round), all[k].node.Name)
		}
		svc.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8", fmt.Sprintf("192.0.2.%d/32", round)}
		r.ensure(svc, there...)
		p.look(fmt.Sprintf("reload %d", round), "")
	}
}

// After a crash the table is gone. The hash leads clients where it led them before, also
// if a node that was never theirs has left since.
func TestClientIPAffinityOverCrash(t *testing.T) {
	t.Parallel()
	r, all := newRigAt(t, "127.77.11.0/24"), manyNodes(t, "127.78.7")
	svc := testService(func(s *v1.Service) { s.Spec.SessionAffinity = v1.ServiceAffinityClientIP })
	p := placement{t: t, ip: r.ensure(svc, all...), was: map[string]string{}}
	p.look("at first", "")
	r.ensure(svc, all[1:]...)
	p.look("a node left", all[0].node.Name)
	pid := r.running(svc).PID
	killNow(t, pid)
	await(t, func() (string, bool) {
		now, err := r.client(svc).Running(t.Context())
		up := 0
		for _, s := range now.Servers {
			if s.Up {
				up++
			}
		}
		return fmt.Sprintf("%v, %d servers up", err, up), err == nil && now.PID != pid && up == len(all)-1
	})
	p.look("crash", "")
}

func manyNodes(t *testing.T, network string) (all []*backend) {
	for i := range 5 {
		all = append(all, newBackend(t, fmt.Sprintf("node-%c", 'a'+i), fmt.Sprintf("%s.%d", network, i+1), true, true))
	}
	return all
}

// placement is where 400 clients were led.
type placement struct {
	t   *testing.T
	ip  string
	was map[string]string // by client: the node's name
}

// look asks as every client. One may be led elsewhere only if its node has left.
func (p placement) look(when, left string) {
	p.t.Helper()
	const clients = 400
	moved := 0
	for i := range clients {
		from := fmt.Sprintf("127.92.%d.%d", i/200, i%200+1)
		node, _, err := ask(p.t.Context(), from, p.ip, 18188)
		if err != nil {
			p.t.Fatalf("%s: %s: %v", when, from, err)
		}
		if before := p.was[from]; before != "" && before != node && before != left {
			moved++
		}
		p.was[from] = node
	}
	if moved > 0 {
		p.t.Errorf("%s: %d of %d clients moved whose node stayed", when, moved, clients)
	}
}

// After a crash every server is DOWN until it was checked, even one that was
// UP at the crash, or at a reload before it; the address stays.
func TestCrashRestartStartsDown(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.12.0/24")
	a := newBackend(t, "node-a", "127.78.5.1", true, true)
	gone := newBackend(t, "node-gone", "127.78.5.2", true, true)
	svc := testService()
	r.ensure(svc, a, gone)
	svc.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8"}
	ip := r.ensure(svc, a, gone) // a reload: node-gone is UP in the file it read
	r.awaitUp(svc, "node-gone", true)

	crashStartsDown(r, svc, ip, gone)
	checkEvents(t, r, "exit", "DOWN node-a", "UP node-a")
}

// eventsOf are those recorded so far: the state, and the node if it is one's.
func eventsOf(t *testing.T, r *rig) (out []string) {
	t.Helper()
	events, err := record.ReadFile[record.Event](filepath.Join(r.records, records.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		out = append(out, strings.TrimSpace(e.State+" "+e.Node))
	}
	return out
}

// So it is after a reload that failed, by which every listener would have had another name.
func TestCrashAfterFailedReloadStartsDown(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.2.0/24")
	a := newBackend(t, "node-a", "127.78.21.1", true, true)
	gone := newBackend(t, "node-gone", "127.78.21.2", true, true)
	svc := testService()
	ip := r.ensure(svc, a, gone)
	r.awaitUp(svc, "node-gone", true)
	const port = 18189
	taken, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	other := svc.DeepCopy()
	other.Spec.Ports[0].Port = port
	if _, err := r.Of(other).Ensure(t.Context(), other, nodesOf(a, gone)); err == nil {
		t.Fatal("a reload did not fail though its port is taken")
	}
	crashStartsDown(r, svc, ip, gone)
}

// crashStartsDown crashes the load balancer of svc at ip, and wants nothing to be served by
// gone, which passes no check any more.
func crashStartsDown(r *rig, svc *v1.Service, ip string, gone *backend) {
	t := r.t
	t.Helper()
	gone.healthy.Store(false)
	served := gone.served.Load()
	pid := r.running(svc).PID
	killNow(t, pid) // the worker, as a segfault would
	begin, nosrv, ok := time.Now(), 0, 0
	for back := false; time.Since(begin) < 3*time.Second || !back && time.Since(begin) < patience; {
		_, _, err := ask(t.Context(), "", ip, 18188)
		if err == nil {
			ok++
		} else {
			nosrv++
		}
		back = err == nil && nosrv > 0
		time.Sleep(5 * time.Millisecond)
	}
	if n := gone.served.Load() - served; n != 0 {
		t.Errorf("a node that never passed a check after the crash served %d requests", n)
	}
	if ok == 0 || nosrv == 0 {
		t.Errorf("%d answered, %d refused: want refusals first and answers after the first check", ok, nosrv)
	}
	if r.running(svc).PID == pid {
		t.Errorf("HAProxy was not started anew")
	}
}

// checkEvents wants these events in this order, among others.
func checkEvents(t *testing.T, r *rig, want ...string) {
	t.Helper()
	await(t, func() (string, bool) {
		got, left := eventsOf(t, r), want
		for _, s := range slices.Backward(got) { // the last ones count
			if len(left) > 0 && s == left[len(left)-1] {
				left = left[:len(left)-1]
			}
		}
		return fmt.Sprintf("events %q, want %q in this order", got, want), len(left) == 0
	})
}

// A flip of the externalTrafficPolicy has nodes checked at another port: those in use stay so
// until the first check there has failed, however many it usually takes.
func TestOtherCheckKeepsServersInUse(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.4.0/24")
	r.cfg.Profile.Fall = 1000
	r.cfg.Profile.Timeout = patience // a check that is held back is not to fail by itself
	a, b := newBackend(t, "node-a", "127.78.23.1", true, true), newBackend(t, "node-b", "127.78.23.2", true, true)
	svc := testService()
	ip := r.ensure(svc, a, b)
	before := r.running(svc)

	const other = checkPort + 1
	held, released := make(chan struct{}), make(chan struct{})
	serveChecks(t, "127.78.23.1", other, func(w http.ResponseWriter, _ *http.Request) { <-released })
	serveChecks(t, "127.78.23.2", other, func(w http.ResponseWriter, _ *http.Request) {
		<-released
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	svc = testService(func(s *v1.Service) { s.Spec.HealthCheckNodePort = other })
	go func() {
		defer close(held)
		if _, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a, b)); err != nil {
			t.Error(err)
		}
	}()
	await(t, func() (string, bool) {
		now, err := r.client(svc).Running(t.Context())
		return fmt.Sprint("no reload: ", err), err == nil && now.PID != before.PID
	})
	for range 40 {
		if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
			t.Errorf("before the first check of the new kind: %v", err)
		}
	}
	close(released)
	<-held
	checkEvents(t, r, "reload", "DOWN node-b")
	r.awaitUp(svc, "node-a", true)
	events := eventsOf(t, r) // HAProxy's start may have had both DOWN
	if after := events[slices.Index(events, "reload"):]; slices.Contains(after, "DOWN node-a") {
		t.Errorf("node-a went down: %q", events)
	}
}

func serveChecks(t *testing.T, addr string, port int, h http.HandlerFunc) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
}

// Without an UP server a client is turned away at once, and the log says why.
func TestNoServerUpRefusesAtOnce(t *testing.T) {
	for name, retries := range map[string]int{"l4-strict": 0, "seed": profile.Default} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Profile.Retries = retries
			ip := r.ensure(testService(), newBackend(t, "node-a", "127.78.6.1", false, true))
			sent, least := map[string]string{}, time.Hour
			for range 5 { // a busy host makes some longer, never shorter
				start := time.Now()
				_, src, err := ask(t.Context(), "", ip, 18188)
				if err == nil {
					t.Error("an answer without a server")
				}
				sent[src], least = haproxy.NoServer, min(least, time.Since(start))
			}
			if least > 200*time.Millisecond {
				t.Errorf("errors after %s and more, want them at once", least)
			}
			checkConns(t, r, sent)
		})
	}
}

// Another provider process finds everything: same address, same HAProxy, no
// reload, and connections are recorded again.
func TestProviderRestartAdopts(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.7.1", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	before := r.running(svc)
	r.kill()
	away := map[string]string{}
	for n := range 2 {
		_, src, err := ask(t.Context(), "", ip, 18188)
		if err != nil {
			t.Fatalf("while the provider is away: %v", err)
		}
		if n > 0 || !haproxy.LosesFirstRow(before.Version) {
			away[src] = "node-a"
		}
	}
	r.restart()
	if err := r.Sweep(t.Context(), []*v1.Service{svc}); err != nil {
		t.Fatal(err)
	}
	if got := r.ensure(svc, a); got != ip {
		t.Errorf("address %s, was %s", got, ip)
	}
	if now := r.running(svc); now.PID != before.PID {
		t.Errorf("the load balancer was reloaded: pid %d, was %d", now.PID, before.PID)
	}
	_, after, err := ask(t.Context(), "", ip, 18188)
	if err != nil {
		t.Fatal(err)
	}
	away[after] = "node-a"
	checkConns(t, r, away)
	if _, err := os.Stat(filepath.Join(r.records, records.ConnsFile+".1")); err != nil {
		t.Errorf("the records of the first process are gone: %v", err)
	}
}

func TestSweepRemovesWhatNobodyWants(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.8.1", true, true)
	keep, orphan := testService(), testService(func(s *v1.Service) { s.Name, s.UID = "old", "uid-old" })
	ip := r.ensure(keep, a)
	r.ensure(orphan, a)
	r.restart()
	for _, dir := range []string{"plumbline-lb-0123456789ab", "data", "plumbline-lb-data"} { // only the first is ours
		if err := os.Mkdir(filepath.Join(r.stateDir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Sweep(t.Context(), []*v1.Service{keep}); err != nil {
		t.Fatal(err)
	}
	if names := r.ps.names(t); len(names) != 1 || names[0] != r.Of(keep).Name() {
		t.Errorf("left %v", names)
	}
	want := []string{"data", r.Of(keep).Name(), "plumbline-lb-data"}
	slices.Sort(want)
	if d := cmp.Diff(want, dirNames(t, r.stateDir)); d != "" {
		t.Errorf("directories (-want +got):\n%s", d)
	}
	if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
		t.Errorf("the wanted one: %v", err)
	}
}

// A Service that is refused is not served at all any more, whatever it was
// before; when it can be served again it has its address back.
func TestRefusedIsNeverHalfServed(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutate func(*v1.Service)
		want   string
	}{
		{"a UDP port is added", func(s *v1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Port: 53, NodePort: 30053, Protocol: v1.ProtocolUDP})
		}, "port 53/UDP"},
		{"pinned out of range", func(s *v1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" }, "192.0.2.1 is not within the load-balancer range"},
		{"pinned to a taken address", func(s *v1.Service) { s.Spec.LoadBalancerIP = "127.77.0.200" }, "127.77.0.200 is taken by somebody"},
		{"a family without addresses", func(s *v1.Service) { s.Spec.IPFamilies = append(s.Spec.IPFamilies, v1.IPv6Protocol) }, "no free address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ps.foreign[netip.MustParseAddr("127.77.0.200")] = "somebody"
			a := newBackend(t, "node-a", "127.78.9.1", true, true)
			svc := testService()
			ip := r.ensure(svc, a)
			svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: ip}}
			bad := svc.DeepCopy()
			c.mutate(bad)
			_, err := r.Of(bad).Ensure(t.Context(), bad, nodesOf(a))
			if !isRefusal(err) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want a refusal with %q", err, c.want)
			}
			if addrs, ok, err := r.Of(bad).Addresses(t.Context(), bad); ok || err != nil {
				t.Errorf("still there: %v, %v", addrs, err)
			}
			if _, _, err := ask(t.Context(), "", ip, 18188); err == nil {
				t.Error("still served")
			}
			if len(r.cleared) != 1 {
				t.Errorf("status cleared for %v, want once", r.cleared)
			}
			if err := r.Of(bad).Update(t.Context(), bad, nodesOf(a)); !isRefusal(err) {
				t.Errorf("a node update of a refused Service: error %v, want the refusal", err)
			}
			// The controller makes no Event of that error, and none of a success.
			if addrs, ok, err := r.Of(bad).Addresses(t.Context(), bad); ok || err != nil {
				t.Errorf("there after a node update: %v, %v", addrs, err)
			}
			svc.Status = v1.ServiceStatus{}
			if again := r.ensure(svc, a); again != ip {
				t.Errorf("served again at %s, was %s", again, ip)
			}
		})
	}
}

// A HAProxy that says nothing for longer than it is waited for keeps its connections.
func TestSilentIsNotReplaced(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, "127.77.3.0/24")
	a := newBackend(t, "node-a", "127.78.22.1", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	c := dial(t, ip)
	worker := r.running(svc).PID
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(worker, sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	_, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a))
	signal(syscall.SIGCONT)
	if err == nil || !strings.Contains(err.Error(), "has not answered within 10s") {
		t.Errorf("error %v, want one that says how long it was waited for", err)
	}
	r.ensure(svc, a)
	if now := r.running(svc).PID; now != worker {
		t.Errorf("HAProxy is %d, was %d", now, worker)
	}
	if _, err := c.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 512)
	if n, err := c.Read(buf); err != nil || !strings.Contains(string(buf[:n]), "200 OK") {
		t.Errorf("the connection was cut: %q, %v", buf[:n], err)
	}
}

// A load balancer whose directory was removed cannot be spoken to; it is made
// anew, with its address, and its connections are recorded.
func TestLostDirectoryIsMadeAnew(t *testing.T) {
	t.Parallel() // it waits
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.11.1", true, true)
	svc := testService()
	ip := r.ensure(svc, a)
	if err := os.RemoveAll(filepath.Join(r.stateDir, r.Of(svc).Name())); err != nil {
		t.Fatal(err)
	}
	if again := r.ensure(svc, a); again != ip {
		t.Errorf("address %s, was %s", again, ip)
	}
	_, src, err := ask(t.Context(), "", ip, 18188)
	if err != nil {
		t.Error(err)
	}
	checkConns(t, r, map[string]string{src: "node-a"})
}
