package agent

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// However often somebody writes into the tables, the first time is answered at
// once and the last within a second; there are a comparison a second and a line a
// minute.
func TestRepairPace(t *testing.T) {
	for _, c := range []struct {
		name  string
		times int
		every time.Duration
		want  []time.Duration // comparisons; nil: one a second, as long as it goes on
		said  []string
	}{
		{"once", 1, 0, []time.Duration{0}, nil},
		{"seldom", 2, 3 * time.Second, []time.Duration{0, 3 * time.Second}, []string{"somebody else changed"}},
		{"twice", 2, 10 * time.Millisecond, []time.Duration{0, time.Second}, []string{"had changed more of what this agent keeps in the kernel\" more=1"}},
		{"100 a second", 15000, 10 * time.Millisecond, nil, []string{"goes on", "goes on", "had changed more"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				var at []time.Duration
				begin := time.Now()
				r := newRepair(func() { at = append(at, time.Since(begin)) }, slog.New(slog.NewTextHandler(&text, nil)))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- r.run(ctx) }()
				for i := range c.times {
					if i > 0 {
						time.Sleep(c.every)
					}
					r.ask()
				}
				last := time.Since(begin)
				time.Sleep(10 * time.Second)
				cancel()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if c.want == nil {
					for i := range int(last/time.Second) + 2 {
						c.want = append(c.want, time.Duration(i)*time.Second)
					}
				}
				if diff := cmp.Diff(c.want, at); diff != "" {
					t.Errorf("compared (-want +got):\n%s", diff)
				}
				lines := strings.Split(strings.TrimSpace(text.String()), "\n")
				want := append([]string{"somebody else changed"}, c.said...)
				if len(lines) != len(want) {
					t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), text.String())
				}
				for i, line := range lines {
					if !strings.Contains(line, want[i]) {
						t.Errorf("line %d is %q, want %q", i, line, want[i])
					}
				}
			})
		})
	}
}
