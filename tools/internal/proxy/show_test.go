package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/listing"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/fixtures/need"
)

// silent is what a Loop needs beside a target.
type silent struct{}

func (silent) Sync(plan.Node, map[objects.Name]plan.HealthCheck) {}
func (silent) Warn(objects.Name, string, string)                 {}
func (silent) WarnNode(string, string)                           {}
func (silent) WarnOfObject(objects.Name, string, string)         {}
func way(p *plan.Plan, k plan.Key) (string, error) {
	return "the way to " + listing.KeyText(k) + "\n", oneService(p)
}
func oneService(p *plan.Plan) error {
	if len(p.Services) != 1 {
		return errors.New("the plan has other Services too")
	}
	return nil
}

// inspected is a Loop that has applied a snapshot, and the socket of what is asked about it.
func inspected(t *testing.T, snap *objects.Snapshot) (*loop.Loop, *agent.Inspector, string) {
	t.Helper()
	applied := make(chan struct{})
	done := sync.OnceFunc(func() { close(applied) })
	l := loop.New(loop.Config{
		Options: plan.Options{Node: "here", Terminating: plan.Fallback, NoLocal: plan.Drop},
		Target:  refuser{"10.96.0.5:80/TCP"}, HealthChecks: silent{}, Events: silent{}, Logger: slog.New(slog.DiscardHandler),
		Observe: func(loop.Round) { done() },
	})
	i := &agent.Inspector{Mode: "nftables", Loop: l, Path: way, Logger: slog.New(slog.DiscardHandler)}
	if snap.Node == nil {
		snap.Node = &objects.Node{Name: "here", InternalIPs: []netip.Addr{netip.MustParseAddr(nodeIP)}}
	}
	changes := []objects.Change{{Node: snap.Node}}
	for _, s := range snap.Services {
		changes = append(changes, objects.Change{Service: &s})
	}
	for _, all := range snap.Slices {
		for _, s := range all {
			changes = append(changes, objects.Change{Slice: &s})
		}
	}
	l.Handle(changes)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	<-applied
	at := fmt.Sprintf("@plumb-proxy-%s-%d", t.Name(), os.Getpid())
	served := make(chan error, 1)
	go func() { served <- i.Serve(ctx, at) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-served); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if c, err := net.Dial("unix", at); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody answers at " + at)
		}
	}
	return l, i, at
}

const showFile = "testdata/show.txtar"

// shown is the case of show: objects first, then what is printed of them.
func shown(t *testing.T) (*txtar.Archive, *objects.Snapshot) {
	t.Helper()
	archive, err := txtar.ParseFile(showFile)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := objects.Decode(archive.Files[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	return archive, snap
}

// What the kernel refused has its reason, in JSON, and so has what it lacks, where that is read
// from the kernel.
func TestShowRefused(t *testing.T) {
	_, snap := shown(t)
	_, i, at := inspected(t, snap)
	says := func(want map[string]string) {
		t.Helper()
		var all []listing.Frontend
		if err := json.Unmarshal([]byte(printed(t, "show", "services", "--json", "--debug-socket", at)), &all); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range all {
			if f.Why != "" {
				got[f.Frontend] = f.State + ": " + f.Why
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("not served (-want +got):\n%s", diff)
		}
	}
	says(map[string]string{"10.96.0.5:80/TCP": "refused: too large"})
	i.Live = func(p *plan.Plan) (*plan.Plan, []plan.Key, error) {
		var keys []plan.Key
		for _, at := range []string{"10.96.0.1", "10.96.0.5"} {
			keys = append(keys, plan.Key{Addr: netip.MustParseAddr(at), Protocol: objects.TCP, Port: 80})
		}
		return p, keys, nil
	}
	says(map[string]string{"10.96.0.1:80/TCP": "missing: " + listing.ErrMissing.Error(), "10.96.0.5:80/TCP": "refused: too large"})
	i.Live = func(*plan.Plan) (*plan.Plan, []plan.Key, error) { return nil, nil, errors.New("no maps") }
	var stdout, stderr strings.Builder
	if code := run([]string{"show", "backends", "--debug-socket=" + at}, &stdout, &stderr); code != 1 || stderr.String() != "plumb-proxy: no maps\n" {
		t.Errorf("where the kernel cannot be read: exit %d: %s%s", code, &stdout, &stderr)
	}
}

var update = flag.Bool("update", false, "write the golden sections")

func TestShow(t *testing.T) {
	archive, snap := shown(t)
	_, _, at := inspected(t, snap)
	for i, what := range []string{"services", "backends"} {
		f := &archive.Files[i+1]
		got := printed(t, "show", what, "--debug-socket", at)
		if f.Name != what {
			t.Fatalf("section %d is %s, want %s", i+1, f.Name, what)
		}
		if diff := cmp.Diff(string(f.Data), got); diff != "" && !*update {
			t.Errorf("show %s (-want +got):\n%s", what, diff)
		}
		f.Data = []byte(got)
	}
	if *update {
		if err := os.WriteFile(showFile, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d: %s", code, &stderr)
	}
	return stdout.String()
}

// A way is asked of the backend with the plan of that Service; a node's address
// stands for its node port.
func TestPath(t *testing.T) {
	nodePort := plan.Key{Protocol: objects.TCP, Port: 30080}
	_, snap := shown(t)
	_, i, at := inspected(t, snap)
	for text, want := range map[string]string{
		"10.96.0.1:80": "the way to 10.96.0.1:80/TCP\n", "tcp://192.0.2.1:30080": "the way to " + listing.KeyText(nodePort) + "\n",
	} {
		if got := printed(t, "show", "path", text, "--debug-socket="+at); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	fails := func(want string) {
		t.Helper()
		var stdout, stderr strings.Builder
		code := run([]string{"show", "path", "10.96.0.1:80/UDP", "--debug-socket=" + at}, &stdout, &stderr)
		if code != 1 || stderr.String() != "plumb-proxy: "+want+"\n" {
			t.Errorf("exit %d: %s%s; want %s", code, &stdout, &stderr, want)
		}
	}
	fails("10.96.0.1:80/UDP: no frontend of this node")
	i.Path = nil
	fails("backend nftables has no path to show")
}

// Everybody may take the socket's name: only root's and the own user's answers are shown.
func TestShowSomebodyElse(t *testing.T) {
	need.Root(t)
	at := fmt.Sprintf("@plumb-proxy-%s-%d", t.Name(), os.Getpid())
	type listening struct {
		l   net.Listener
		err error
	}
	taken := make(chan listening)
	go func() {
		runtime.LockOSThread() // and ends with it: its user is another
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			taken <- listening{err: errno}
			return
		}
		l, err := net.Listen("unix", at)
		taken <- listening{l, err}
	}()
	by := <-taken
	if by.err != nil {
		t.Fatal(by.err)
	}
	defer by.l.Close()
	var stdout, stderr strings.Builder
	code := run([]string{"show", "services", "--debug-socket=" + at}, &stdout, &stderr)
	if want := "somebody else answers: user 65534 is neither root nor the same one"; code != 1 || !strings.Contains(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit %d: %s%s; want %s", code, &stdout, &stderr, want)
	}
}
