package mutant

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// What connection tracking was told is as it was when the agent has ended, also when one was killed
// before it could say what was there.
func TestHalfClosedTimeoutsComeBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    string // before; empty: nobody has
		killed int    // agents, before the one that ends
	}{
		{"as the kernel has them", "", 0},
		{"somebody has set them", "77", 0},
		{"an agent was killed", "", 1},
		{"and one more", "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, atOnce := map[string]string{}, map[string]string{}
			for path, unset := range halfClosedTimeouts {
				want[path], atOnce[path] = unset, "0"
				if c.set != "" {
					want[path] = c.set
				}
			}
			err := netns.ForTest(t, "timeouts").Do(func() error {
				compareTimeouts(t, "of a new namespace", halfClosedTimeouts)
				for path, text := range want {
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						return err
					}
				}
				var last changes
				for range c.killed + 1 {
					last = changes{}
					forgottenAfter("0", halfClosedTimeouts)(&last)
					if err := last.started(backend.Backend{}); err != nil {
						return err
					}
					compareTimeouts(t, "meanwhile", atOnce)
				}
				defer compareTimeouts(t, "afterwards", want)
				return last.stopped(backend.Backend{})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func compareTimeouts(t *testing.T, when string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for path := range want {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		got[path] = strings.TrimSpace(string(text))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timeouts %s (-want +got):\n%s", when, diff)
	}
}

// What a mutation did to the host is undone also where the backend does not end well; both say so.
func TestStoppedThoughCloseFails(t *testing.T) {
	ends, undoes := errors.New("the backend's end"), errors.New("the mutation's")
	c := &changes{stopped: func(backend.Backend) error { return undoes }}
	b := c.backend(backend.Backend{Start: func(backend.Options, *slog.Logger) backend.Running {
		return backend.Running{Close: func() error { return ends }}
	}})
	if err := b.Start(backend.Options{}, slog.New(slog.DiscardHandler)).Close(); !errors.Is(err, ends) || !errors.Is(err, undoes) {
		t.Errorf("it says: %v", err)
	}
}
