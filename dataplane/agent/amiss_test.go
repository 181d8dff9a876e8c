package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/backend"
)

// What is not as a node needs it is told of once, also when somebody changes it later, and again
// when that has been mended between.
func TestAmiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const forward = "sysctl net.ipv4.ip_forward is 0 and not 1: nothing is forwarded over IPv4"
		begin := time.Now()
		var told []string
		var mu sync.Mutex // guards found and failed
		var found []string
		var failed error
		s := &amiss{
			Look: backend.Look{Reason: "SysctlAmiss", Cure: "plumb-proxy --init-only on this node sets it", Amiss: func() ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return found, failed
			}},
			tell: func(reason, text string) { told = append(told, time.Since(begin).String()+" "+reason+": "+text) },
			log:  slog.New(slog.DiscardHandler),
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- s.run(ctx) }()
		for _, state := range []struct {
			found []string
			err   error
		}{{nil, nil}, {[]string{forward}, nil}, {nil, nil}, {[]string{forward}, nil}, {nil, errors.New("not to be read")}} {
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			found, failed = state.found, state.err
			mu.Unlock()
			time.Sleep(3*time.Minute - time.Second)
			synctest.Wait()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{
			"4m0s SysctlAmiss: " + forward + "; plumb-proxy --init-only on this node sets it",
			"10m0s SysctlAmiss: " + forward + "; plumb-proxy --init-only on this node sets it",
			"13m0s SysctlAmiss: not to be read; plumb-proxy --init-only on this node sets it",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
