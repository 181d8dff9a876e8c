package records

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// A burst of rows waits for a reader that is held up, in one namespace or another.
func TestPacketsQueue(t *testing.T) {
	need.Root(t)
	dir, err := os.MkdirTemp("", "plumb-lb-") // t.TempDir is too long for the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tap, err := newTap(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer tap.close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const rows, size = 200, 160
	for n := range rows {
		to := &unix.SockaddrUnix{Name: filepath.Join(dir, haproxy.LogDatagrams)}
		if err := unix.Sendto(fd, make([]byte, size), unix.MSG_DONTWAIT, to); err != nil {
			t.Fatalf("after %d rows that nobody read: %v", n, err)
		}
	}
	for n := range rows {
		if got, err := tap.packets.Read(make([]byte, 1024)); got != size || err != nil {
			t.Fatalf("row %d: %d bytes, %v", n, got, err)
		}
	}
}

func TestSeenRows(t *testing.T) {
	var s seenRows
	start := time.Unix(0, 0)
	for _, c := range []struct {
		row   string
		after time.Duration
		want  bool
	}{
		{"a", 0, true},
		{"a", time.Millisecond, false},
		{"b", seenFor, true},
		{"a", seenFor + 1, false}, // still remembered
		{"c", 2*seenFor + 2, true},
		{"b", 2*seenFor + 3, true}, // forgotten: no row is copied that late
	} {
		if got := s.add(c.row, start.Add(c.after)); got != c.want {
			t.Errorf("%q after %s: new is %t, want %t", c.row, c.after, got, c.want)
		}
	}
}
