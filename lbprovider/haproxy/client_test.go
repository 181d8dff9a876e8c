package haproxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	time.AfterFunc(100*time.Millisecond, func() {
		if err := os.Rename(path+"1", path); err != nil {
			t.Error(err)
		}
	})
	if pid, err := NewClient(dir).Master(t.Context()); err != nil || pid != os.Getpid() {
		t.Errorf("the master is %d (%v)", pid, err)
	}
}
