//go:build linux

package dptest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// A socket is of the cgroup of the thread that made it, for ever. The places of a network are
// threads of one process, so a node's cgroup is a threaded one below the process's own: threads
// that act as the node or as its pods enter it, and all others are elsewhere.

// cgroups is the process's own cgroup, in a mount that nobody else sees and that ends with it.
var cgroups = sync.OnceValues(func() (string, error) {
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("open cgroup2: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return "", fmt.Errorf("make a mount of cgroup2: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("mount cgroup2: %w", err)
	}
	return filepath.Join(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), mount), own), nil // also for programs that it starts
})

func ownCgroup() (string, error) {
	all, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(all)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", errors.New("this process is in no cgroup2")
}

// Cgroup is that of the node with a network namespace, once Net.Sockets has made it.
func Cgroup(netns int) (string, error) {
	root, err := cgroups()
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Fstat(netns, &st); err != nil {
		return "", fmt.Errorf("name the cgroup of a namespace: %w", err)
	}
	return filepath.Join(root, fmt.Sprintf("plumbline-test-%d-%d", os.Getpid(), st.Ino)), nil
}

// Sockets gives the node a cgroup: from now on threads that act as the node or as its pods are in
// it, and so are the sockets that they make. It goes away with the test.
func (n *Net) Sockets(t netns.TB) {
	t.Helper()
	path, err := Cgroup(n.FD())
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatalf("make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		late := await(context.WithoutCancel(t.Context()), "threads are in the cgroup", func() bool { err = os.Remove(path); return !errors.Is(err, unix.EBUSY) })
		if err := errors.Join(err, late); err != nil {
			t.Fatalf("remove a cgroup: %v", err)
		}
	})
	if err := os.WriteFile(filepath.Join(path, "cgroup.type"), []byte("threaded"), 0o644); err != nil {
		t.Fatalf("make a cgroup threaded: %v", err)
	}
	n.cgroup = path
}

// As runs f on a thread that acts as a source: in its namespace and, where it is on the node and that
// has one, in its cgroup. The thread ends with f.
func (n *Net) As(from Source, f func() error) error {
	return n.places[from].Do(func() error {
		if n.cgroup != "" && from.here() {
			if err := os.WriteFile(filepath.Join(n.cgroup, "cgroup.threads"), []byte("0"), 0o644); err != nil {
				return fmt.Errorf("enter the cgroup of the node: %w", err)
			}
		}
		return f()
	})
}
