package userspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socket opens a transparent socket in the namespace with a mark: it may have an
// address that is not the node's, and tproxy gives packets to no others.
func (s *space) socket(v6 bool, kind, mark int) (fd int, err error) {
	err = s.do(func() error {
		fd, err = unix.Socket(familyOf(v6).af(), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("open socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mark socket (needs NET_ADMIN): %w", err)
	}
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if v6 {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make socket transparent (needs NET_ADMIN): %w", err)
	}
	return fd, nil
}

// queue lets so many bytes wait at a socket; where that is not allowed, as for the root of a
// user namespace, what net.core.rmem_max does.
func queue(fd, bytes int) error {
	err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes)
	if errors.Is(err, unix.EPERM) {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes)
	}
	return err
}

// queueOf is how many bytes may wait at a socket; 0: it does not say.
func queueOf(f *os.File) (bytes int) {
	raw, err := f.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { bytes, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) })
	}
	return bytes
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// burst is how much may wait at a UDP listener, where flows begin.
const burst = 4 << 20

// listener opens a transparent listener on a free port of the loopback address:
// packets come to it by tproxy alone.
func (s *space) listener(f family, kind int) (*os.File, uint16, error) {
	mark := markHidden
	if kind == unix.SOCK_STREAM {
		mark = markOurs // accepted sockets have the mark of their listener
	}
	fd, err := s.socket(f.v6, kind, mark)
	if err != nil {
		return nil, 0, err
	}
	file := os.NewFile(uintptr(fd), "listener")
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && kind == unix.SOCK_DGRAM {
		level, option := unix.SOL_IP, unix.IP_RECVORIGDSTADDR
		if f.v6 {
			level, option = unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR
		}
		err = errors.Join(unix.SetsockoptInt(fd, level, option, 1), queue(fd, burst))
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(f.loopback, 0)))
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	if in, ok := at.(*unix.SockaddrInet4); ok {
		return file, uint16(in.Port), nil
	}
	return file, uint16(at.(*unix.SockaddrInet6).Port), nil
}

// dialTCP connects to an endpoint, with a source address that may be anybody's,
// or the node's own if from is invalid.
func (s *space) dialTCP(ctx context.Context, from netip.Addr, to netip.AddrPort, within time.Duration) (*net.TCPConn, error) {
	file, err := s.upstream(unix.SOCK_STREAM, from, to)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := errors.Join(file.SetWriteDeadline(time.Now().Add(within)), ctx.Err(), awaitConnected(file)); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// awaitConnected waits for a connect that was begun.
func awaitConnected(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if failed = err; failed != nil {
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err == nil // else it is under way
	})
	return errors.Join(err, failed)
}

// upstream opens a socket to an endpoint and begins to connect it.
func (s *space) upstream(kind int, from netip.Addr, to netip.AddrPort) (*os.File, error) {
	fd, err := s.socket(to.Addr().Is6(), kind, markOurs)
	if err != nil {
		return nil, err
	}
	if from.IsValid() {
		if kind == unix.SOCK_STREAM {
			// The port is chosen by connect: the same one serves many endpoints.
			if err = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
				err = fmt.Errorf("leave port open: %w", err)
			}
		}
		if e := unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0))); err == nil && e != nil {
			err = fmt.Errorf("bind to the client's address %s: %w", from, e)
		}
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "upstream"), nil
}

// dialUDP opens the socket of a flow to an endpoint.
func (s *space) dialUDP(from netip.Addr, to netip.AddrPort) (*net.UDPConn, error) {
	file, err := s.upstream(unix.SOCK_DGRAM, from, to)
	if err != nil {
		return nil, err
	}
	return packetConn(file)
}

// answerUDP opens the socket of a flow to its client, with the address that the
// client sent to. It is hidden until it is connected: before, it would be given
// the packets of other clients. Some it is given all the same (see requests), so
// it tells by which link a datagram came.
func (s *space) answerUDP(at, client netip.AddrPort) (*net.UDPConn, error) {
	fd, err := s.socket(at.Addr().Is6(), unix.SOCK_DGRAM, markHidden)
	if err != nil {
		return nil, err
	}
	level, option := unix.SOL_IP, unix.IP_PKTINFO
	if at.Addr().Is6() {
		level, option = unix.SOL_IPV6, unix.IPV6_RECVPKTINFO
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(fd, level, option, 1))
	if err == nil {
		if err = unix.Bind(fd, sockaddr(at)); err != nil {
			err = fmt.Errorf("bind to %s, which a process of the node may hold: %w", at, err)
		}
	}
	if err == nil {
		err = unix.Connect(fd, sockaddr(client))
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, markOurs)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return packetConn(os.NewFile(uintptr(fd), "flow"))
}

func packetConn(file *os.File) (*net.UDPConn, error) {
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}
