package ebpf

import (
	"errors"
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

// As the kernel shows them in a container that has only its own cgroup, with a namespace of cgroups or
// without, in one that has been given the node's, and in a process of a node that has such a namespace.
func TestOnlyOwn(t *testing.T) {
	const own = "37 30 0:31 /pods/agent /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
	for name, c := range map[string]struct {
		mounts, groups string
		want           bool
	}{
		"a container":                                 {wholeMount, "0::/\n", true},
		"a container beside v1":                       {wholeMount, "1:cpu:/\n0::/\n", true},
		"a container in the host's namespace":         {own, "0::/pods/agent\n", true},
		"a container with the node's":                 {wholeMount + nodesMount, "0::/\n", false},
		"one in the host's namespace with the node's": {own + wholeMount, "0::/pods/agent\n", false},
		"a process of a node":                         {wholeMount, "0::/kubelet/agent\n", false},
		"a container whose own comes last":            {nodesMount + wholeMount, "0::/\n", true},
		"no cgroup2":                                  {"", "1:cpu:/\n", false},
	} {
		if got := onlyOwn(c.mounts, c.groups, func(at string) bool { return at == "/sys/fs/cgroup" }); got != c.want {
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
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(root, link); err != nil {
			t.Fatal(err)
		}
		for _, by := range []string{root, root + "/", link} {
			got, err := NodeCgroup(by)
			if err != nil {
				t.Fatal(err)
			}
			is, err := os.Stat(got)
			want, failed := os.Stat(at)
			if err := errors.Join(err, failed); err != nil || !os.SameFile(is, want) {
				t.Errorf("the cgroup2 at %s, by %s: %s, %v", at, by, got, err)
			}
		}
	}
}
