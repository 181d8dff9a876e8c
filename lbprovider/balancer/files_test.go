package balancer

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// plant puts a link to target at path, as HAProxy's user; false: it may not.
func plant(t *testing.T, target, path string) bool {
	t.Helper()
	c := exec.Command("ln", "-sfT", target, path)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: haproxyUser, Gid: haproxyUser}}
	err := c.Run()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return err == nil
}

// What HAProxy's user puts into the load balancer's directory leads the provider nowhere:
// neither what it writes at a change, nor a new HAProxy's files, nor its log sockets.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	need.Root(t)
	r := newRigAt(t, "127.77.1.0/24")
	a, b := newBackend(t, "node-a", "127.78.20.1", true, true), newBackend(t, "node-b", "127.78.20.2", true, true)
	svc := testService()
	r.ensure(svc, a)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("somebody's"), 0o640); err != nil {
		t.Fatal(err)
	}
	before := lstat(t, victim)
	name := r.Of(svc).Name()
	dir := filepath.Join(r.stateDir, name)
	all := entries(t, dir)
	for _, file := range slices.Clone(all) {
		all = append(all, file+".new", file+".1")
	}
	for _, file := range all {
		if plant(t, victim, filepath.Join(dir, file)) && !strings.HasPrefix(file, haproxy.OwnDir+"/") {
			t.Errorf("HAProxy's user can put a link at %s", file)
		}
	}
	svc.Spec.Ports = append(svc.Spec.Ports, svc.Spec.Ports[0])
	svc.Spec.Ports[1].Name, svc.Spec.Ports[1].Port = "more", 81
	// Its sockets are links now: to be made anew, with its files.
	if _, err := r.Of(svc).Ensure(t.Context(), svc, nodesOf(a, b)); err != nil {
		t.Error(err)
	}
	r.restart()
	r.ensure(svc, a)
	if now := lstat(t, victim); now != before {
		t.Errorf("the file of somebody else is %+v, was %+v", now, before)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "somebody's" {
		t.Errorf("the file of somebody else reads %q, %v", text, err)
	}
}

// A socket that a link leads to is not spoken to.
func TestSocketByLinkIsNotAsked(t *testing.T) {
	dir := stateDir(t)
	d := newRunDir(filepath.Join(dir, "lb"))
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	foreign, err := net.Listen("unix", filepath.Join(dir, "foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	var asked atomic.Bool
	go func() {
		for c, err := foreign.Accept(); err == nil; c, err = foreign.Accept() {
			asked.Store(true)
			c.Close()
		}
	}()
	if err := os.Symlink(filepath.Join(dir, "foreign"), filepath.Join(d.path, haproxy.StatsSocket)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	answer, err := haproxy.NewClient(d.path).Do(ctx, "show info")
	if err == nil || asked.Load() || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("answer %q, %v; asked: %t", answer, err, asked.Load())
	}
}

// A directory that is HAProxy's user's, with whatever is in it, is not used.
func TestForeignDirectoryIsMadeAnew(t *testing.T) {
	need.Root(t)
	d := newRunDir(filepath.Join(stateDir(t), "lb"))
	if err := os.Mkdir(d.path, 0o755); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("somebody's"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(d.path, haproxy.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(d.path, haproxyUser, haproxyUser); err != nil {
		t.Fatal(err)
	}
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, d.path); !slices.Equal(got, []string{haproxy.OwnDir}) {
		t.Errorf("the directory holds %v", got)
	}
}

// entries are the paths of all that is in dir, from there.
func entries(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// lstat is what of a file a chown, chmod, write or replacement changes.
func lstat(t *testing.T, path string) (out struct {
	ino      uint64
	mode     uint32
	uid, gid uint32
	size     int64
	changed  unix.Timespec
}) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	out.ino, out.mode, out.uid, out.gid, out.size, out.changed = st.Ino, st.Mode, st.Uid, st.Gid, st.Size, st.Ctim
	return out
}

// A directory goes also while HAProxy's user fills its own one: a process of a HAProxy that
// was replaced may be left.
func TestDirectoryGoesWhileItIsFilled(t *testing.T) {
	need.Root(t)
	for range 20 {
		d := newRunDir(filepath.Join(t.TempDir(), "lb"))
		if err := d.make(); err != nil {
			t.Fatal(err)
		}
		own, err := unix.Open(filepath.Join(d.path, haproxy.OwnDir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		filled := make(chan int)
		go func() {
			runtime.LockOSThread() // and ends with its thread, which is HAProxy's user's
			_, err := unix.SetfsuidRetUid(haproxyUser)
			n := 0
			for ; err == nil; n++ {
				if err = unix.Symlinkat("/etc/passwd", own, strconv.Itoa(n)); n == 100 {
					filled <- n
				}
			}
			filled <- n
		}()
		if n := <-filled; n != 100 {
			t.Fatalf("HAProxy's user made %d links", n)
		}
		if err := d.remove(); err != nil {
			t.Fatal(err)
		}
		<-filled
		unix.Close(own)
	}
}
