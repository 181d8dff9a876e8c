//go:build linux

package dptest

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// A closed server whose socket a child of ours has not let go of yet is followed by the
// next one at that address; the copy stands for the child's.
func TestServeAfterClose(t *testing.T) {
	n := NewNet(t)
	for _, proto := range []objects.Protocol{objects.TCP, objects.UDP} {
		t.Run(proto.String(), func(t *testing.T) {
			rows := []Row{{Proto: proto, To: netip.MustParseAddrPort("10.97.0.1:8080")}}
			first, err := n.Serve(t.Context(), rows)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := first.closers[0].(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			held, copied := -1, error(nil)
			err = raw.Control(func(fd uintptr) { held, copied = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
			if err := errors.Join(err, copied); err != nil {
				t.Fatal(err)
			}
			first.Close()
			let := time.AfterFunc(50*time.Millisecond, func() { _ = unix.Close(held) })
			defer let.Stop()
			second, err := n.Serve(t.Context(), rows)
			if err != nil {
				t.Fatal(err)
			}
			second.Close()
		})
	}
}
