package ebpf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
)

const (
	wholeMount = "35 30 0:31 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
	nodesMount = "36 30 0:31 /../../.. /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
)

// As the kernel shows them in a container that has only its own cgroup, in one that has been given
// the node's, and in a process of a node that has a namespace of its own.
func TestOnlyOwn(t *testing.T) {
	for name, c := range map[string]struct {
		mounts, groups string
		want           bool
	}{
		"a container":                      {wholeMount, "0::/\n", true},
		"a container beside v1":            {wholeMount, "1:cpu:/\n0::/\n", true},
		"a container with the node's":      {wholeMount + nodesMount, "0::/\n", false},
		"a process of a node":              {wholeMount, "0::/kubelet/agent\n", false},
		"a container whose own comes last": {nodesMount + wholeMount, "0::/\n", true},
	} {
		if got := onlyOwn(c.mounts, c.groups, "/sys/fs/cgroup"); got != c.want {
			t.Errorf("%s: only its own: %t, want %t", name, got, c.want)
		}
	}
}

func TestNodeCgroup(t *testing.T) {
	need.Root(t)
	root := t.TempDir()
	if _, err := NodeCgroup(root); err == nil || !strings.Contains(err.Error(), "no cgroup2") {
		t.Errorf("where there is none: %v", err)
	}
	for _, at := range []string{filepath.Join(root, unified), root} {
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("cgroup2", at, "cgroup2", 0, ""); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		}()
		if got, err := NodeCgroup(root); err != nil || got != at {
			t.Errorf("the cgroup2 at %s: %s, %v", at, got, err)
		}
	}
}

func TestMountCgroup(t *testing.T) {
	need.Root(t)
	first, err := firstCgroups()
	if err != nil {
		t.Fatal(err)
	}
	if !first {
		t.Skip("this is not the kernel's first cgroup namespace")
	}
	root := t.TempDir()
	for range 2 {
		if err := MountCgroup(root); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(root, unified)
	if got, err := NodeCgroup(root); err != nil || got != at {
		t.Errorf("%s, %v", got, err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := NodeCgroup(root); err == nil {
		t.Error("it was mounted twice")
	}
}
