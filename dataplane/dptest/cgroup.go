//go:build linux

package dptest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/cgroup"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A socket is of the cgroup of the thread that made it, for ever. The places of a network are
// threads of one process, so a node's cgroup is a threaded one below the process's own: threads
// that act as the node or as its pods enter it, and all others are elsewhere.

// Cgroup is that of the node with a network namespace, once Net.Sockets has made it.
func Cgroup(netns int) (string, error) {
	own, err := cgroup.Of(os.Getpid())
	if err != nil {
		return "", err
	}
	name, err := cgroupName(netns)
	return filepath.Join(own.Path(), name), err
}

func cgroupName(netns int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(netns, &st); err != nil {
		return "", fmt.Errorf("name the cgroup of a namespace: %w", err)
	}
	return fmt.Sprintf("plumbline-test-%d-%d", os.Getpid(), st.Ino), nil
}

// threadsEnd is how long threads may take that have left a test.
const threadsEnd = 10 * time.Second

// Sockets gives the node a cgroup: from now on threads that act as the node or as its pods are in
// it, and so are the sockets that they make. It goes away with the test.
func (n *Net) Sockets(t netns.TB) {
	t.Helper()
	name, err := cgroupName(n.FD())
	if err == nil {
		n.cgroup, err = cgroup.Threads(name)
	}
	if err == nil && n.cgroup == nil {
		err = fmt.Errorf("make cgroup %s: this process may make none", name)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := n.cgroup.Remove(threadsEnd); err != nil {
			t.Fatalf("%v", err)
		}
	})
}

// As runs f on a thread that acts as a source: in its namespace and, where it is on the node and that
// has one, in its cgroup. The thread ends with f.
func (n *Net) As(from Source, f func() error) error {
	return n.places[from].Do(func() error {
		if from.here() {
			if err := n.cgroup.Enter(); err != nil {
				return err
			}
		}
		return f()
	})
}
