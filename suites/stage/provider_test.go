package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// start runs a shell script in the provider's place.
func start(t *testing.T, script string) *Provider {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "provider")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := StartProvider(ProviderConfig{Program: program, PIDFile: filepath.Join(dir, "provider.pid"), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestStopEndsTheProvider(t *testing.T) {
	p := start(t, "trap 'exit 0' TERM; while :; do sleep 0.1; done")
	if _, err := os.Stat(p.pidFile); err != nil {
		t.Errorf("no pid file for clean: %v", err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.pidFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file stays: %v", err)
	}
	if err := p.process.Signal(os.Interrupt); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the process lives: %v", err)
	}
}

// A provider that dies is noticed, and says where to look.
func TestDeathIsNoticed(t *testing.T) {
	p := start(t, "exit 3")
	<-p.Died()
	err := p.Err()
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "plumb-lb.log") {
		t.Errorf("a dead provider: %v", err)
	}
}

// recorded is a provider with a reload on record.
func recorded(t *testing.T, script string) *Provider {
	t.Helper()
	p := start(t, script)
	w, err := record.Create[record.Event](filepath.Join(p.records, "lb-events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(record.Event{Kind: record.KindLB, State: "reloaded", LB: "ns/echo"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitFile waits until a script has got so far.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for t.Context().Err() == nil {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A reload is over when it is on record, and one that is not begun is an error.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	hangups := make(chan os.Signal, 1) // a shell cannot trap what is ignored when it starts, as below nohup
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	p := recorded(t, `r="${1#--records=}"; trap 'printf "{\"at\":1,\"kind\":\"lb\",\"state\":\"reloaded\",\"lb\":\"ns/echo\"}\n" >>"$r/lb-events.jsonl"' HUP; : >`+dir+`/ready; while :; do sleep 0.05; done`)
	awaitFile(t, filepath.Join(dir, "ready"))
	b, echo := balancer{Provider: p}, disrupt.LB{Service: "ns/echo"}
	for n := range 2 {
		if err := b.Reload(t.Context(), echo); err != nil {
			t.Fatal(err)
		}
		if events, err := p.Events(); err != nil || len(events) != n+2 {
			t.Errorf("%d events after reload %d, %v", len(events), n+1, err)
		}
	}
	deaf := balancer{Provider: recorded(t, `trap "" HUP; : >`+dir+`/deaf; while :; do sleep 0.05; done`)}
	awaitFile(t, filepath.Join(dir, "deaf")) // before, a hangup would end it
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := deaf.Reload(soon, echo); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reload that did not begin: %v", err)
	}
	if err := b.End(t.Context(), disrupt.LB{Service: "ns/echo", UID: "none"}, false); err == nil {
		t.Error("a load balancer that is not there has ended")
	}
}

func TestStartProviderRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := StartProvider(ProviderConfig{Program: filepath.Join(dir, "none"), Dir: dir}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// The namespace of a load balancer is its master's.
func TestNetNSOfBalancer(t *testing.T) {
	b, lb := balancer{cluster: "c", dir: t.TempDir()}, disrupt.LB{UID: "u"}
	path := filepath.Join(b.Dir(lb.UID), haproxy.MasterSocket)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if room, err := b.NetNS(t.Context(), lb); err != nil || room != fmt.Sprintf("/proc/%d/ns/net", os.Getpid()) {
		t.Errorf("its namespace is %s (%v)", room, err)
	}
}
