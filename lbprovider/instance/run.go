package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// maxOutput is how much output a start adds to; more is set aside, once.
const maxOutput = 1 << 20

// run is one HAProxy master that was started here or taken over.
type run struct {
	pid   int
	since time.Time
	fd    *os.File // a pidfd: readable once the process ended (pidfd_open(2))
	child *exec.Cmd
	// closed is guarded by Processes.mu.
	closed bool
}

// command is how HAProxy is called, without the program. -W: a master that
// restarts workers on a reload; -db: in the foreground. If a worker dies, the
// master ends with it.
func command(dir string) []string {
	return []string{"-W", "-db", "-p", filepath.Join(dir, haproxy.PidFile),
		"-S", filepath.Join(dir, haproxy.MasterSocket) + ",mode,600", "-f", filepath.Join(dir, haproxy.ConfigFile)}
}

// spawn starts the process of s: in its place, as its user, with nothing of this
// program's environment, terminal or privileges.
func (p *Processes) spawn(s Spec) (*run, error) {
	out, err := openOutput(s.Dir)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	attr, err := p.attributes(s)
	if err != nil {
		return nil, err
	}
	c := &exec.Cmd{
		Path: p.program, Args: append([]string{p.program}, command(s.Dir)...), Env: []string{}, Dir: "/",
		Stdout: out, Stderr: out, SysProcAttr: attr,
	}
	err = p.place.enter(s, func() error {
		// Of this thread, which is thrown away; the child inherits it.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("set no_new_privs: %w", err)
		}
		comeFirst(0) // this thread
		return c.Start()
	})
	if err != nil {
		return nil, err
	}
	r, err := openRun(c.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, c.Process.Kill(), c.Wait())
	}
	r.child, r.since = c, time.Now()
	return r, nil
}

func (p *Processes) attributes(s Spec) (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setsid: true} // signals of our terminal are not for it
	if os.Geteuid() != 0 {
		return attr, nil
	}
	var uid, gid uint32
	if _, err := fmt.Sscanf(s.Owner, "%d:%d", &uid, &gid); err != nil {
		return nil, fmt.Errorf("read the owner %q: %w", s.Owner, err)
	}
	if int(uid) == os.Geteuid() { // there is no other in a user namespace
		return attr, nil
	}
	attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	attr.AmbientCaps = p.caps
	return attr, nil
}

func openOutput(dir string) (*os.File, error) {
	path := filepath.Join(dir, outputFile)
	if st, err := os.Lstat(path); err == nil && st.Size() > maxOutput {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("set the output of HAProxy aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file of HAProxy's output: %w", err)
	}
	return f, nil
}

func openRun(pid int) (*run, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) // so that the runtime polls it
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &run{pid: pid, fd: os.NewFile(uintptr(fd), fmt.Sprintf("pidfd of %d", pid))}, nil
}

// adoptRun takes over a process that somebody else started for dir. It is looked
// at after its pidfd is open: then it is what was looked at.
func adoptRun(pid int, dir string) (*run, error) {
	r, err := openRun(pid)
	if err != nil {
		return nil, err
	}
	if whose(pid, filepath.Dir(dir)) != filepath.Base(dir) {
		return nil, errors.Join(fmt.Errorf("process %d is another by now", pid), r.close())
	}
	return r, nil
}

func ended(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// alive says whether the process has not ended. It is called with Processes.mu held.
func (r *run) alive() bool {
	if r.closed {
		return false
	}
	raw, err := r.fd.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) { gone = ended(fd) })
	return err == nil && !gone
}

func (r *run) signal(sig unix.Signal) error {
	raw, err := r.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	return errors.Join(err, sent)
}

// await waits until the process ended; false: ctx ended first.
func (r *run) await(ctx context.Context) bool {
	raw, err := r.fd.SyscallConn()
	if err != nil {
		return ctx.Err() == nil // closed by who noted its end
	}
	stop := context.AfterFunc(ctx, func() { _ = r.fd.SetReadDeadline(time.Now()) })
	defer func() {
		if stop() {
			return
		}
		_ = r.fd.SetReadDeadline(time.Time{}) // for the next who waits
	}()
	_ = raw.Read(ended)
	return ctx.Err() == nil
}

// reap returns how a process ended that did. Of one that is no child of ours
// nobody tells.
func (r *run) reap() string {
	if r.child == nil {
		return ""
	}
	_ = r.child.Wait() // its error says what the state says
	return r.child.ProcessState.String()
}

// close lets go of the process. It is called with Processes.mu held, or before
// anybody else knows of it.
func (r *run) close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	return r.fd.Close()
}

// endAll kills every process of a load balancer, and waits for their ends. All that are
// found are held before the first is killed: a worker whose master ends begins to end too,
// and then has no command line to be found by, but its sockets still.
func endAll(ctx context.Context, stateDir, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for { // a master may have forked since: look again
		held, err := holdAll(stateDir, name)
		if err == nil {
			err = killAll(ctx, held)
		}
		for _, r := range held {
			err = errors.Join(err, r.close())
		}
		if err != nil || len(held) == 0 {
			return err
		}
	}
}

// holdAll opens every process of a load balancer.
func holdAll(stateDir, name string) (held []*run, err error) {
	found, err := findAll(stateDir)
	if err != nil {
		return nil, err
	}
	for _, pid := range found[name] {
		r, err := openRun(pid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return held, err
		}
		held = append(held, r)
		if whose(pid, stateDir) != name && !ending(pid) { // the pid is another's by now
			held = held[:len(held)-1]
			if err := r.close(); err != nil {
				return held, err
			}
		}
	}
	return held, nil
}

func killAll(ctx context.Context, held []*run) error {
	for _, r := range held {
		if err := r.signal(unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("kill process %d: %w", r.pid, err)
		}
	}
	for _, r := range held {
		if !r.await(ctx) {
			return fmt.Errorf("wait for the end of process %d: %w", r.pid, ctx.Err())
		}
	}
	return nil
}

// checkSearchable wants HAProxy's user to reach its directory.
func checkSearchable(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var up []string
	for d := dir; ; d = filepath.Dir(d) {
		up = append(up, d)
		if d == filepath.Dir(d) {
			break
		}
	}
	for _, d := range slices.Backward(up) {
		st, err := os.Stat(d)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at the state directory: %w", err)
		}
		if st.Mode()&0o001 == 0 {
			return fmt.Errorf("HAProxy's user cannot reach the state directory %s: %s is not searchable for others (chmod o+x)", dir, d)
		}
	}
	return nil
}
