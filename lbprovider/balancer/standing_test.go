package balancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/instance"
)

func publishing(ip string, mutate ...func(*v1.Service)) *v1.Service {
	svc := testService(mutate...)
	svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: ip}}
	return svc
}

// A restart that fails in an update leaves no container. The load balancer
// still exists for the controller, which tries again, and then it is back.
func TestUpdateMakesAgainWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name    string
		restart bool // the provider forgets all; then the status tells
	}{{"reserved", false}, {"published", true}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a := newBackend(t, "node-a", "127.78.12.1", true, true)
			svc := testService()
			ip := r.ensure(svc, a)
			if err := r.ps.Stop(t.Context(), r.Of(svc).Name()); err != nil {
				t.Fatal(err)
			}
			if c.restart {
				r.restart()
				svc = publishing(ip)
			}
			r.ps.failStarts = 1
			if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a)); err == nil {
				t.Fatal("the restart did not fail")
			}
			addrs, ok, err := r.Of(svc).Addresses(t.Context(), svc)
			if err != nil || !ok || addrs[0].String() != ip {
				t.Fatalf("after a restart that failed: %v, %v", addrs, err)
			}
			if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a)); err != nil {
				t.Fatal(err)
			}
			r.awaitUp(svc, "node-a", true)
			if _, _, err := ask(t.Context(), "", ip, 18188); err != nil {
				t.Error(err)
			}
		})
	}
}

// An update cannot publish an address, nor say why a Service is refused: both
// are errors that the controller passes on to ensure.
func TestUpdateLeavesToEnsureWhatItCannotSay(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.13.1", true, true)
	svc := publishing("127.77.0.50")
	r.ps.foreign[netip.MustParseAddr("127.77.0.50")] = "somebody"
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a)); err == nil || !strings.Contains(err.Error(), "moved from [127.77.0.50]") {
		t.Errorf("error %v, want one that says it moved", err)
	}
	svc.Spec.LoadBalancerIP = "192.0.2.1"
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a)); !isRefusal(err) {
		t.Errorf("error %v, want a refusal", err)
	}
	if addrs, ok, err := r.Of(svc).Addresses(t.Context(), svc); !ok || err != nil {
		t.Errorf("%v, %v: the controller would not pass the refusal on", addrs, err)
	}
}

func TestUpdateWithoutLoadBalancer(t *testing.T) {
	p := newFaked(t, newContainers())
	if err := p.Of(testService()).Update(t.Context(), testService(), nil); !errors.Is(err, errNone) {
		t.Errorf("error %v, want %v", err, errNone)
	}
	if addrs, ok, err := p.Of(testService()).Addresses(t.Context(), testService()); ok || err != nil {
		t.Errorf("exists: %v, %v", addrs, err)
	}
}

// An update that comes while or after the Service is deleted brings nothing
// back, though the object it comes with publishes an address.
func TestUpdateDoesNotBringBackWhatIsDeleted(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.14.1", true, true)
	svc := publishing(r.ensure(testService(), a))
	unlock := r.Of(svc).lock()
	updated := make(chan error, 1)
	go func() { updated <- r.Of(svc).Update(t.Context(), svc, nodesOf(a)) }()
	select {
	case err := <-updated:
		t.Fatalf("the update did not wait for the lock: %v", err)
	case <-time.After(300 * time.Millisecond): // it looked what exists, if it does before it has the lock
	}
	err := r.Of(svc).drop(t.Context(), errDeleted)
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-updated; !errors.Is(err, errDeleted) {
			t.Errorf("error %v, want %v", err, errDeleted)
		}
		updated <- r.Of(svc).Update(t.Context(), svc, nodesOf(a))
	}
	if addrs, ok, err := r.Of(svc).Addresses(t.Context(), svc); ok || err != nil {
		t.Errorf("exists: %v, %v", addrs, err)
	}
	if names := r.ps.names(t); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	// The same Service may want one again.
	r.ensure(testService(), a)
}

// A load balancer that never started is cleaned up: its address and directory
// are free.
func TestDeletedBeforeItEverStarted(t *testing.T) {
	r := newRig(t)
	a := newBackend(t, "node-a", "127.78.15.1", true, true)
	pin := func(s *v1.Service) { s.Spec.LoadBalancerIP = "127.77.0.60" }
	svc := testService(pin)
	r.ps.failStarts = 1
	if _, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a)); err == nil {
		t.Fatal("the start did not fail")
	}
	// As the controller does it.
	_, ok, err := r.Of(svc).Addresses(t.Context(), svc)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		if err := r.Of(svc).Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if dirs := dirNames(t, r.stateDir); len(dirs) != 0 {
		t.Errorf("directories left: %v", dirs)
	}
	r.ensure(testService(pin, func(s *v1.Service) { s.Name, s.UID = "next", "uid-next" }), a)
}

// What a Service publishes is kept for it while its container is missing; what
// a container has is that container's.
func TestSweepKeepsPublishedAddresses(t *testing.T) {
	addrs := func(s ...string) (out []netip.Addr) {
		for _, a := range s {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	fake := newContainers()
	p := newFaked(t, fake)
	missing := publishing("127.77.0.70")
	runs := publishing("127.77.0.71", func(s *v1.Service) { s.Name, s.UID = "runs", "uid-runs" })
	liar := publishing("127.77.0.71", func(s *v1.Service) { s.Name, s.UID = "liar", "uid-liar" })
	name := p.Of(runs).Name()
	fake.all[name] = instance.Instance{Name: name, Service: "shop/runs", Addrs: addrs("127.77.0.71"), Running: true}
	if err := p.Sweep(t.Context(), []*v1.Service{liar, missing, runs}); err != nil {
		t.Fatal(err)
	}
	for svc, want := range map[*v1.Service][]netip.Addr{missing: addrs("127.77.0.70"), runs: addrs("127.77.0.71"), liar: nil} {
		if got := p.pool.of(p.Of(svc).Name()); !slices.Equal(got, want) {
			t.Errorf("%s has %v reserved, want %v", svc.Name, got, want)
		}
	}
	pinned := testService(func(s *v1.Service) { s.Name, s.UID, s.Spec.LoadBalancerIP = "new", "uid-new", "127.77.0.70" })
	_, err := p.Of(pinned).Ensure(t.Context(), pinned, nil)
	if want := fmt.Sprintf("127.77.0.70 is taken by %s", p.Of(missing).Name()); !isRefusal(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a refusal with %q", err, want)
	}
}

// While a load balancer waits for its first round of checks, its nodes can
// change; the wait goes by the new ones.
func TestNodesChangeDuringFirstRound(t *testing.T) {
	r := newRig(t)
	r.cfg.Profile.Interval = 8 * time.Second // a check that hangs has a result after that
	a := newBackend(t, "node-a", "127.78.16.1", true, true)
	hangs := &backend{node: &v1.Node{}}
	hangs.node.Name = "node-hangs"
	hangs.node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.78.16.2"}}
	l, err := net.Listen("tcp", fmt.Sprintf("127.78.16.2:%d", checkPort))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // nobody accepts
	svc := testService()
	ensured := make(chan error, 1)
	begin := time.Now()
	go func() {
		_, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a, hangs))
		ensured <- err
	}()
	await(t, func() (string, bool) {
		_, err := r.client(svc).Running(t.Context())
		return fmt.Sprint(err), err == nil
	})
	if err := r.Of(svc).Update(t.Context(), svc, nodesOf(a)); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 7*time.Second {
		t.Errorf("the update waited: done after %s", d)
	}
	if err := <-ensured; err != nil {
		t.Errorf("ensure: %v", err)
	}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestDeleted(t *testing.T) {
	r := newRig(t)
	svc := testService()
	r.ensure(svc, newBackend(t, "node-a", "127.78.10.1", true, true))
	for range 2 { // the second time there is nothing
		if err := r.Of(svc).Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if names := r.ps.names(t); len(names) != 0 {
		t.Errorf("left %v", names)
	}
	if dirs, err := os.ReadDir(r.stateDir); err != nil || len(dirs) != 0 {
		t.Errorf("left %v, %v", dirs, err)
	}
}

// Where no load balancer serves there is nothing to reload.
func TestReloadOfNothing(t *testing.T) {
	f := New(Config{StateDir: t.TempDir()})
	f.at(instance.Name("test", "uid-web"))
	if err := f.Reload(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Start that comes late, after its program has let go of everything, starts nothing, and leaves no record.
func TestNothingStartsAfterClose(t *testing.T) {
	dir := stateDir(t)
	ps := newProcesses(t, dir, netip.MustParsePrefix("127.78.0.0/24"))
	spec := instance.Spec{Name: "late", Service: "default/late", UID: "late", Dir: filepath.Join(dir, "late"), Addrs: []netip.Addr{netip.MustParseAddr("127.78.0.1")}, Owner: "0:0"}
	if err := errors.Join(os.Mkdir(spec.Dir, 0o755), ps.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ps.Stop(context.Background(), spec.Name); err != nil {
			t.Error(err)
		}
	})
	if err := ps.Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "start late") || !strings.Contains(err.Error(), "let go") {
		t.Errorf("a start after Close: %v", err)
	}
	if got := ps.names(t); len(got) > 0 {
		t.Errorf("it is listed: %v", got)
	}
	if left, err := os.ReadDir(spec.Dir); err != nil || len(left) > 0 {
		t.Errorf("its directory holds %v (%v)", left, err)
	}
}
