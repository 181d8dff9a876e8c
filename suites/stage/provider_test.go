package stage

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
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

// A provider that dies must end what waits for it, and say where to look.
func TestDeathIsNoticed(t *testing.T) {
	p := start(t, "exit 3")
	err := p.AwaitServers(t.Context(), "a/b", "w1")
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "plumb-lb.log") {
		t.Errorf("waiting on a dead provider: %v", err)
	}
}

func TestAwaitServers(t *testing.T) {
	p := start(t, "sleep 60 & wait")
	w, err := record.Create[record.Event](filepath.Join(p.records, "lb-events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	server := func(lb, node, state string) {
		w.Write(record.Event{Kind: record.KindServer, LB: lb, Node: node, State: state})
		w.Flush()
	}
	server("a/b", "w1", "UP")
	server("a/b", "w2", "UP")
	server("x/y", "w3", "UP")
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = p.AwaitServers(soon, "a/b", "w2")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has [w2] UP (has [w1 w2])") {
		t.Errorf("with one too many: %v", err)
	}
	server("a/b", "w1", "DOWN")
	if err := p.AwaitServers(t.Context(), "a/b", "w2"); err != nil {
		t.Errorf("with exactly the wanted: %v", err)
	}
}

// With two families a node is UP in both, or in part.
func TestUpServersOfTwoFamilies(t *testing.T) {
	event := func(node, state string, f record.Family) record.Event {
		return record.Event{Kind: record.KindServer, LB: "a/b", Node: node, State: state, Family: f}
	}
	got := upServers([]record.Event{
		event("w1", "UP", record.IPv4), event("w1", "UP", record.IPv6), event("w2", "UP", record.IPv4), event("w2", "DOWN", record.IPv6),
		event("w3", "UP", record.IPv6), event("w3", "DOWN", record.IPv6),
	}, "a/b")
	if want := map[string]bool{"w1": true, "w2 (in part)": true}; !maps.Equal(got, want) {
		t.Errorf("UP %v, want %v", got, want)
	}
}

func TestStartProviderRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := StartProvider(ProviderConfig{Program: filepath.Join(dir, "none"), Dir: dir}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}
