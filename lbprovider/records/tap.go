package records

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// tap is the listening end of one load balancer's log.
type tap struct {
	stream  net.Listener
	packets *net.UnixConn
	sockets map[string]fs.FileInfo // by path; const
	wg      sync.WaitGroup

	mu     sync.Mutex        // guards the fields below
	conns  map[net.Conn]bool // one per worker
	closed bool
}

// newTap binds the sockets in dir, in place of those of an earlier process.
func newTap(dir string, log *slog.Logger) (*tap, error) {
	stream, packets := filepath.Join(dir, haproxy.LogSocket), filepath.Join(dir, haproxy.LogDatagrams)
	for _, path := range []string{stream, packets} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("free the log socket: %w", err)
		}
	}
	t := &tap{conns: map[net.Conn]bool{}, sockets: map[string]fs.FileInfo{}}
	var err error
	if t.stream, err = net.Listen("unix", stream); err != nil {
		return nil, err
	}
	if t.packets, err = listenPackets(packets, log); err != nil {
		return nil, errors.Join(err, t.stream.Close())
	}
	for _, path := range []string{stream, packets} {
		err := open(path, dir)
		if err == nil {
			t.sockets[path], err = os.Lstat(path)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the log socket to HAProxy: %w", err), t.stream.Close(), t.packets.Close())
		}
	}
	return t, nil
}

// open lets those write to a socket whose group its directory has: HAProxy's.
func open(path, dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := os.Lchown(path, -1, int(st.Sys().(*syscall.Stat_t).Gid)); err != nil {
		return err
	}
	return os.Chmod(path, 0o660)
}

// packetQueue is how many rows the datagram socket queues; what HAProxy's end may have
// on its way (net.core.wmem_default) bounds it too, and may do so sooner.
const packetQueue = 4096

// listenPackets binds the datagram socket. A socket queues as much as
// net.unix.max_dgram_qlen (mostly 10) says in the namespace where it is made, so
// it is made in one of its own: its path leads to it from everywhere. Where that
// is not allowed it queues what this host's sockets do.
func listenPackets(path string, log *slog.Logger) (c *net.UnixConn, err error) {
	listen := func() (err error) {
		c, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		return err
	}
	err = netns.Fresh(func() error {
		if err := os.WriteFile("/proc/sys/net/unix/max_dgram_qlen", []byte(strconv.Itoa(packetQueue)), 0o644); err != nil {
			return err
		}
		return listen()
	})
	if err != nil {
		log.Warn("the queue for the log of a load balancer is as short as this host's: a burst of connections right after a reload may lack records", "err", err)
		err = listen()
	}
	return c, err
}

// stands says whether the sockets are still what their paths lead to.
func (t *tap) stands() bool {
	for path, made := range t.sockets {
		now, err := os.Lstat(path)
		if err != nil || !os.SameFile(made, now) {
			return false
		}
	}
	return true
}

func (t *tap) close() {
	t.mu.Lock()
	t.closed = true
	t.stream.Close()
	t.packets.Close()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

func (t *tap) add(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return false
	}
	t.conns[c] = true
	return true
}

func (t *tap) done(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	c.Close()
}

// seenFor is how long a row is remembered at least. The second copy of a row
// comes within milliseconds, or within seconds after the ring had to connect
// anew.
const seenFor = time.Minute

// seenRows remembers rows for one to two times seenFor. Not safe for
// concurrent use.
type seenRows struct {
	now, before map[string]bool
	since       time.Time // of now
}

// add reports whether row is new.
func (s *seenRows) add(row string, at time.Time) bool {
	if s.now == nil || at.Sub(s.since) > seenFor {
		s.before, s.now, s.since = s.now, map[string]bool{}, at
	}
	if s.now[row] || s.before[row] {
		return false
	}
	s.now[row] = true
	return true
}
