package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// asker is why a connection's other side is answered nothing, if it is not. It is its own key.
type asker struct{ refused error }

// knows is a ConnContext: an abstract socket has no permissions.
func knows(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, asker{}, asker{Trusted(c)})
}

// nobody stands for users of other namespaces (/proc/sys/kernel/overflowuid).
const nobody = 65534

// Trusted is an error unless the other side of a unix socket is root's or this process's own
// user's.
func Trusted(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("find out who is at the other side: it is a %T", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return fmt.Errorf("find out who is at the other side: %w", err)
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("find out who is at the other side: %w", err)
	}
	if own := int(who.Uid) == os.Geteuid() && who.Uid != nobody; who.Uid != 0 && !own {
		return fmt.Errorf("user %d is neither root nor the same one", who.Uid)
	}
	return nil
}
