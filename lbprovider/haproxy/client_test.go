package haproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// The master of a load balancer is waited for: while it executes itself anew nobody listens at its socket.
func TestMasterIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, MasterSocket)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	var masters [2]*net.UnixListener
	for i := range masters {
		var err error
		if masters[i], err = net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprint(path, i), Net: "unix"}); err != nil {
			t.Fatal(err)
		}
		defer masters[i].Close()
		masters[i].SetUnlinkOnClose(false)
	}
	if err := errors.Join(os.Rename(path+"0", path), masters[0].Close()); err != nil {
		t.Fatal(err)
	}
	client := NewClient(dir)
	soon, cancel := context.WithTimeout(t.Context(), 2*pollEvery)
	defer cancel()
	if pid, err := client.Master(soon); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, unix.ECONNREFUSED) || pid != 0 {
		t.Errorf("a master that does not come: %d (%v)", pid, err)
	}
	var g errgroup.Group
	g.Go(func() error {
		time.Sleep(100 * time.Millisecond) // it is not there for as long
		return os.Rename(path+"1", path)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if pid, err := client.Master(ctx); err != nil || pid != os.Getpid() {
		t.Errorf("the master is %d (%v)", pid, err)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := NewClient(t.TempDir()).Master(ctx); !errors.Is(err, unix.ENOENT) {
		t.Errorf("without a socket: %v, want %v at once", err, unix.ENOENT)
	}
}
