//go:build linux

package others

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/need"
)

// Who asks for kube-proxy alone is not kept from it by a process of another agent that it may
// not look at (which wants CAP_SYS_PTRACE).
func TestKubeProxyAmongUnreadable(t *testing.T) {
	need.Root(t)
	proc := t.TempDir()
	if err := os.Chmod(filepath.Dir(proc), 0o755); err != nil { // that of the test is its own
		t.Fatal(err)
	}
	for _, p := range []struct {
		pid, name, ns string
		mode          os.FileMode
	}{{"thread-self", "", "net:[1]", 0o755}, {"10", "cilium-agent", "net:[1]", 0o700}, {"20", "kube-proxy", "net:[1]", 0o755}, {"30", "kube-proxy", "net:[2]", 0o755}} {
		dir := filepath.Join(proc, p.pid, "ns")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Symlink(p.ns, filepath.Join(dir, "net")), os.WriteFile(filepath.Join(proc, p.pid, "comm"), []byte(p.name+"\n"), 0o644), os.Chmod(dir, p.mode)); err != nil {
			t.Fatal(err)
		}
	}
	var all, running []Trace
	var errAll, err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and ends with the thread, which is nobody's from now on
		if _, err = unix.SetfsuidRetUid(65534); err != nil {
			return
		}
		all, errAll = processes(Config{Proc: proc})
		running, err = KubeProxyRunning(Config{Proc: proc})
	}()
	<-done
	if !errors.Is(errAll, fs.ErrPermission) {
		t.Errorf("a process that cannot be looked at is not told: %v, %v", all, errAll)
	}
	if diff := cmp.Diff([]Trace{{Who: "kube-proxy", What: "process kube-proxy"}}, running); diff != "" || err != nil {
		t.Errorf("%v; running (-want +got):\n%s", err, diff)
	}
}

// A node's processes are seen by who sees its kubelet, or the kernel's own.
func TestSeesNode(t *testing.T) {
	also := map[string]string{"k3s-server\n": "kthreadd\n"}
	for comm, want := range map[string]bool{"kubelet\n": true, "kthreadd\n": true, "plumb-proxy\n": false, "kubelet-x\n": false, "k3s-server\n": false} {
		proc := t.TempDir()
		for pid, name := range map[string]string{"1": "pause\n", "7": comm, "9": also[comm]} {
			if err := errors.Join(os.Mkdir(filepath.Join(proc, pid), 0o755), os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(name), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := SeesNode(proc); got != want || err != nil {
			t.Errorf("beside %q: %t, %v; want %t", comm, got, err, want)
		}
	}
}
