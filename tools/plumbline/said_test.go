package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// TestPlain: what a run says is a line for people, and nothing of it is lost.
func TestPlain(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(&plain{out: &b, lock: &sync.Mutex{}}).With("run", "lab-x")
	for _, tc := range []struct {
		say  func()
		want string
	}{
		{func() { log.Info("row", "dataplane", "plumb-nftables fallback", "n", 2, "of", 7) }, "• [2/7] plumb-nftables fallback"},
		{func() { log.Info("dataplane forwards", "dataplane", "x", "took", "1.2s") }, "✓ it forwards, after 1.2s"},
		{func() {
			log.Info("rollout", "scenario", "rolling-update", "dataplane", "ours", "rollout", 4, "counted", 1, "wanted", 3, "lost", 0, "sent", 1345, "reconstructed", 0.0, "slow", 0, "left", "2m0s")
		}, "✓ rolling-update, ours, rollout 1 of 3: lost 0 of 1345 (the states explain 0), late 0; about 2m0s left"},
		{func() {
			log.Info("rollout", "scenario", "e1", "dataplane", "ours", "rollout", 1, "counted", 1, "wanted", 1, "lost", 9, "sent", 10, "reconstructed", 8.5, "slow", 0)
		}, "• e1, ours, rollout 1 of 1: lost 9 of 10 (the states explain 8.5), late 0"},
		{func() {
			log.Info("behaviour", "n", 3, "of", 9, "id", "affinity", "family", "IPv4", "result", "fail", "reason", "two")
		}, "✗ [3/9] affinity IPv4: fail: two"},
		{func() { log.Warn("the host is busy", "error", errors.New("p99\n38 ms")) }, "! the host is busy (run lab-x, error p99; 38 ms)"},
		{func() { log.Error("dataplane was not removed", "why", "no") }, "✗ dataplane was not removed (run lab-x, why no)"},
	} {
		b.Reset()
		tc.say()
		_, said, _ := strings.Cut(b.String(), " ")
		if said != tc.want+"\n" {
			t.Errorf("%q, want %q", said, tc.want)
		}
	}
	b.Reset()
	log.Debug("step")
	if b.Len() > 0 {
		t.Errorf("a step is said without -v: %s", b.String())
	}
	coloured := slog.New(&plain{out: &b, lock: &sync.Mutex{}, colours: true})
	coloured.Warn("odd")
	if !strings.Contains(b.String(), "\x1b[33m!\x1b[0m odd") {
		t.Errorf("no colour: %q", b.String())
	}
}
