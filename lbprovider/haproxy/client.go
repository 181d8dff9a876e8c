package haproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	commandTimeout = 5 * time.Second
	pollEvery      = 50 * time.Millisecond
	// maxAnswer is far more than a row for each of a full HAProxy's sessions.
	maxAnswer = 64 << 20
)

// Client speaks to one HAProxy through the sockets in its directory.
type Client struct{ dir string }

// NewClient returns a client for the HAProxy whose files are in dir (as this
// process sees it).
func NewClient(dir string) *Client { return &Client{dir: dir} }

// Do sends one line to the stats socket and returns the answer.
func (c *Client) Do(ctx context.Context, line string) (string, error) {
	return c.ask(ctx, StatsSocket, line)
}

func (c *Client) ask(ctx context.Context, socket, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	path := filepath.Join(c.dir, socket)
	conn, err := dial(ctx, path)
	if err != nil {
		return "", fmt.Errorf("ask HAProxy at %s: %w", path, err)
	}
	defer conn.Close()
	if t, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(t); err != nil {
			return "", fmt.Errorf("ask HAProxy at %s: %w", path, err)
		}
	}
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", fmt.Errorf("ask HAProxy at %s: %w", path, err)
	}
	// The master waits for more otherwise.
	if half, ok := conn.(*net.UnixConn); ok {
		if err := half.CloseWrite(); err != nil && !errors.Is(err, unix.ENOTCONN) { // it has answered and gone
			return "", fmt.Errorf("ask HAProxy at %s: %w", path, err)
		}
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return "", fmt.Errorf("ask HAProxy at %s %.60q: %w", path, line, err)
	}
	return string(answer), nil
}

// dial connects to what is at path itself: the folder is HAProxy's own, and a link in it may
// lead to any socket of this host. Every error is one of a dial (isDial).
func dial(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: cmp.Or(err, errNoSocket)}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
}

var errNoSocket = errors.New("what is there is no socket")

// Running asks the process what it runs.
func (c *Client) Running(ctx context.Context) (Running, error) {
	info, err := c.Do(ctx, "show info")
	if err != nil {
		return Running{}, err
	}
	var r Running
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Version":
			r.Version = value
		case "description":
			r.Base = value
		case "Pid":
			if r.PID, err = strconv.Atoi(value); err != nil {
				return Running{}, fmt.Errorf("read HAProxy's pid: %w", err)
			}
		}
	}
	if r.PID == 0 {
		err := fmt.Errorf("HAProxy at %s tells no pid: %.80q", c.dir, info)
		if info != "" { // else it is out of descriptors, or ends
			err = fmt.Errorf("%w: %w", ErrNonsense, err)
		}
		return Running{}, err
	}
	states, err := c.Do(ctx, "show servers state")
	if err != nil {
		return Running{}, err
	}
	r.Servers, err = parseServers(states)
	return r, err
}

// Reload has the master start a worker with the configuration on disk and
// waits until that worker, not old, answers with the wanted base.
func (c *Client) Reload(ctx context.Context, old Running, base string) error {
	if err := c.askMaster(ctx, "reload"); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if _, err := c.Await(ctx, func(r Running) bool { return r.PID != old.PID && r.Base == base }); err != nil {
		return fmt.Errorf("reload: no new worker took over: %w", err)
	}
	return nil
}

var resync = regexp.MustCompile(`flags=0x([0-9a-f]+) resync_timeout=`) // const

// resyncFinished are the flags of peers that have learned what there was to learn
// (PEERS_F_RESYNC_LOCAL and _REMOTE, src/peers.c).
const resyncFinished = 3

// Learned tells whether the process has what the one before knew of clients, or has
// given up asking for it, 5 s after its start. One that has not cannot teach the next.
func (c *Client) Learned(ctx context.Context) (bool, error) {
	answer, err := c.Do(ctx, "show peers")
	if err != nil {
		return false, err
	}
	m := resync.FindStringSubmatch(answer)
	if m == nil {
		return false, nil // no peers
	}
	flags, err := strconv.ParseUint(m[1], 16, 64)
	if err != nil {
		return false, fmt.Errorf("read the state of HAProxy's peers: %w", err)
	}
	return flags&resyncFinished == resyncFinished, nil
}

// AwaitLearned waits until it is so.
func (c *Client) AwaitLearned(ctx context.Context) error {
	return poll(ctx, 5*time.Millisecond, func() (bool, error) { return c.Learned(ctx) })
}

// ErrNonsense is in an error of Running where what answers is no HAProxy.
var ErrNonsense = errors.New("what answers is no HAProxy")

// IsGone says whether nobody listens at a socket, or there is none: the HAProxy that made it
// does not run. (One that runs and does not get to accept has its queue fill up, EAGAIN.)
func IsGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, errNoSocket)
}

// Master is the process that started all workers, as this process sees it: who listens at the
// master's socket (SO_PEERCRED). In a container it has another number of its own. While it executes itself
// anew, for a reload, nobody listens at the socket, which stays: it is waited for until ctx ends.
func (c *Client) Master(ctx context.Context) (pid int, err error) {
	waited := poll(ctx, pollEvery, func() (bool, error) {
		pid, err = c.listener(ctx)
		return !errors.Is(err, unix.ECONNREFUSED), err
	})
	return pid, cmp.Or(waited, err)
}

func (c *Client) listener(ctx context.Context) (pid int, err error) {
	path := filepath.Join(c.dir, MasterSocket)
	conn, err := dial(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("ask who listens at %s: %w", path, err)
	}
	defer conn.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("ask who listens at %s: it is no Unix socket", path)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask who listens at %s: %w", path, err)
	}
	var peer *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return 0, fmt.Errorf("ask who listens at %s: %w", path, err)
	}
	if peer.Pid <= 1 { // in a namespace that this one does not see
		return 0, fmt.Errorf("who listens at %s is out of sight", path)
	}
	return int(peer.Pid), nil
}

// askMaster waits until the master listens: it does not while it starts, or
// executes itself anew for an earlier reload. What follows the connect says
// nothing, because a reload closes the connection.
func (c *Client) askMaster(ctx context.Context, line string) error {
	return poll(ctx, pollEvery, func() (bool, error) {
		_, err := c.ask(ctx, MasterSocket, line)
		return !isDial(err), err
	})
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// Drop ends the connections of a server, also in workers that earlier reloads replaced, and
// removes it from the one that serves.
func (c *Client) Drop(ctx context.Context, server string) error {
	for _, line := range []string{
		"shutdown sessions server " + server, // unknown where a reload took it away
		"del server " + server,               // not while a connection is about to end: then at the next change
	} {
		if _, err := c.Do(ctx, line); err != nil {
			return err
		}
	}
	procs, err := c.ask(ctx, MasterSocket, "show proc")
	if err != nil {
		return err
	}
	for _, pid := range oldWorkers(procs) {
		if err := c.dropOld(ctx, pid, server); err != nil {
			return err
		}
	}
	return nil
}

// dropOld ends sessions one by one: a worker that was replaced has stopped its proxies, and
// takes no command for a server of theirs.
func (c *Client) dropOld(ctx context.Context, pid int, server string) error {
	sessions, err := c.ask(ctx, MasterSocket, fmt.Sprintf("@!%d show sess", pid))
	if err != nil {
		return err
	}
	for _, id := range sessionsOf(sessions, server) {
		if _, err := c.ask(ctx, MasterSocket, fmt.Sprintf("@!%d shutdown session %s", pid, id)); err != nil {
			return err
		}
	}
	return nil
}

// Session is a connection that is open.
type Session struct {
	Client netip.AddrPort
	Node   string // of its server; empty: it has none yet
	Age    time.Duration
}

// Sessions are those of the worker that serves, as old as wanted at least. (Those of workers that
// were replaced are not among them.)
func (c *Client) Sessions(ctx context.Context, age time.Duration) ([]Session, error) {
	answer, err := c.Do(ctx, "show sess")
	if err != nil {
		return nil, err
	}
	return parseSessions(answer, age), nil
}

// parseSessions reads "ID: proto=… src=ADDRESS fe=… be=PROXY srv=SERVER ts=… age=1m2s …" (management.txt
// 9.3), and leaves out what is no client's, or younger than age.
func parseSessions(answer string, age time.Duration) (out []Session) {
	for line := range strings.Lines(answer) {
		var s Session
		for _, f := range strings.Fields(line) {
			name, value, _ := strings.Cut(f, "=")
			switch name {
			case "src":
				at, err := netip.ParseAddrPort(value)
				if err == nil {
					s.Client = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
				}
			case "srv":
				if !strings.HasPrefix(value, "<") {
					s.Node = nodeName(value)
				}
			case "age":
				s.Age, _ = time.ParseDuration(value) // 0: younger than whoever asks can want
			}
		}
		if s.Client.IsValid() && s.Age >= age {
			out = append(out, s)
		}
	}
	return out
}

// sessionsOf are the sessions with a server in the answer to "show sess" (management.txt
// 9.3): "ID: proto=… be=PROXY srv=SERVER …".
func sessionsOf(sessions, server string) (out []string) {
	proxy, name, _ := strings.Cut(server, "/")
	for line := range strings.Lines(sessions) {
		id, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if slices.Contains(f, "be="+proxy) && slices.Contains(f, "srv="+name) {
			out = append(out, id)
		}
	}
	return out
}

// oldWorkers are the pids of workers that a reload replaced, in the master's answer to "show
// proc".
func oldWorkers(procs string) (out []int) {
	_, old, _ := strings.Cut(procs, "# old workers")
	for line := range strings.Lines(old) {
		f := strings.Fields(line)
		if len(f) < 2 || f[1] != "worker" {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// Await asks until ok or ctx ends; then it returns what it saw last.
func (c *Client) Await(ctx context.Context, ok func(Running) bool) (r Running, err error) {
	err = poll(ctx, pollEvery, func() (bool, error) {
		var err error
		r, err = c.Running(ctx)
		return err == nil && ok(r), err
	})
	return r, err
}

// poll asks until it is done or ctx ends; then it returns what was said last as well, before that
// end: what it cut off, or what is asked afterwards, would say no more than that it was too late.
func poll(ctx context.Context, every time.Duration, ask func() (done bool, err error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var said error
	for first := true; ; first = false {
		done, err := ask()
		if done {
			return nil
		}
		if first || !ended(ctx) {
			said = err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		if ended(ctx) {
			return errors.Join(cmp.Or(ctx.Err(), context.DeadlineExceeded), said)
		}
	}
}

// ended is true from the deadline on: ctx itself hears of it a moment later, a dial at once.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
