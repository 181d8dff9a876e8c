package others

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
)

// What runs at a cgroup's sockets is its own, and that of those that it is in; not of those in it, nor at other
// hooks.
func TestAtSockets(t *testing.T) {
	need.Root(t)
	tree := t.TempDir()
	if err := unix.Mount("none", tree, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(tree, 0); err != nil {
			t.Error(err)
		}
	})
	above := filepath.Join(tree, "plumbline-above-"+filepath.Base(filepath.Dir(tree)))
	node := filepath.Join(above, "node")
	inside := filepath.Join(node, "pod")
	for _, dir := range []string{above, node, inside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Error(err)
			}
		})
	}
	for _, p := range []struct {
		name, path string
		at         ebpf.AttachType
		returns    int32
	}{
		{"cil_sock4_conne", above, ebpf.AttachCGroupInet4Connect, 1},
		{"answers", above, ebpf.AttachCGroupUDP6Recvmsg, 1},
		{"any_bind", above, ebpf.AttachCGroupInet4Bind, 1},
		{"plumb_connect4", node, ebpf.AttachCGroupInet4Connect, 1},
		{"of_a_pod", inside, ebpf.AttachCGroupInet4Connect, 1},
	} {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: p.path, Attach: p.at, Program: program(t, p.name, ebpf.CGroupSockAddr, p.at, p.returns)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
	hosts, _, err := AtSockets(tree) // whatever this host has
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string][2][]string{
		above:  {{"program answers at hook recvmsg6", "program cil_sock4_conne (Cilium) at hook connect4"}, nil},
		node:   {{"program plumb_connect4 (plumb-ebpf) at hook connect4"}, {"program answers at hook recvmsg6", "program cil_sock4_conne (Cilium) at hook connect4"}},
		inside: {{"program of_a_pod at hook connect4"}, {"program answers at hook recvmsg6", "program cil_sock4_conne (Cilium) at hook connect4", "program plumb_connect4 (plumb-ebpf) at hook connect4"}},
	} {
		own, over, err := AtSockets(dir)
		if err != nil {
			t.Fatal(err)
		}
		over = slices.DeleteFunc(over, func(line string) bool { return slices.Contains(hosts, line) })
		if diff := cmp.Diff(want, [2][]string{own, over}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", dir, diff)
		}
	}
	if _, _, err := AtSockets(filepath.Join(tree, "none")); err == nil {
		t.Error("a cgroup that is not there is looked at")
	}
}
