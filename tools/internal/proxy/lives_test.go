package proxy

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
)

var lives = flag.Int("lives", 3, "how often an agent of eBPF is killed, and how often another build takes over, under load")

// otherLayout is the name of the layout that otherBuild has.
const otherLayout = "v9999"

// otherBuild is another build of plumb-proxy, whose maps are others.
func otherBuild(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "plumb-proxy")
	build := exec.Command("go", "build", "-o", program, "-ldflags", "-X github.com/plumbline/plumbline/dataplane/ebpf.layout="+otherLayout, "github.com/plumbline/plumbline/tools/plumb-proxy")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build plumb-proxy with another layout: %v: %s", err, said)
	}
	return program
}

// layouts are the folders of a node's pins.
func layouts(t *testing.T, pins string) (names []string) {
	t.Helper()
	folders, err := os.ReadDir(pins)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		names = append(names, f.Name())
	}
	return names
}

// An agent is killed and started again, and then another build with another layout of the maps takes
// over, of which a first process is killed in the middle of that, over and over and to and fro. No new
// connection fails, of hundreds a second, and every open one goes on. Nothing is left of who was before.
func TestLives(t *testing.T) {
	t.Parallel()
	s := newSwitched(t)
	pins, err := ebpf.Folder(ebpf.Root, s.w.ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	other := otherBuild(t)
	now := s.w.start(t, "--backend=ebpf")
	own := layouts(t, pins)[0]
	open := s.hold(t)
	defer closeAll(open)
	out := s.load(t, func() {
		for i := range *lives {
			now.end(t, syscall.SIGKILL)
			now = s.w.start(t, "--backend=ebpf")
			now.end(t, syscall.SIGTERM)
			layout := otherLayout
			if s.w.program = other; i%2 == 1 {
				s.w.program, layout = "", own
			}
			now = s.upgrade(t, filepath.Join(pins, layout), i)
			if lost := broken(open); len(lost) > 0 {
				t.Errorf("with layout %s these did not go on:\n%s", layout, strings.Join(lost, "\n"))
			}
		}
	})
	for _, f := range slices.Concat(out.failed, out.resent) {
		t.Errorf("failed: %s", f.text)
	}
	if len(out.ended) > 0 {
		t.Errorf("of those that were open did not go on:\n%s", strings.Join(out.ended, "\n"))
	}
	now.end(t, syscall.SIGTERM)
	s.w.output(t, "--cleanup", "--backend=ebpf")
	if left, err := backend.All(s.w.ns.FD())["ebpf"].Left(); err != nil || len(left) > 0 {
		t.Errorf("after --cleanup there is %v, %v", left, err)
	}
}

// upgrade has another build take over whose layout has a folder, of which the first process is killed
// where it has pinned something, each time another thing: by chance it may be further by then, or done. What
// becomes of each write that it ends at is the package's own test.
func (s *switched) upgrade(t *testing.T, folder string, n int) *process {
	t.Helper()
	pins, layout := filepath.Split(folder)
	alone := func() bool { return slices.Equal(layouts(t, pins), []string{layout}) }
	steps := []string{"plumb_ingress_next*", "plumb_getpeer4_link", "plumb_fronts", ""}
	first := s.w.launch(t, "--backend=ebpf")
	s.w.await(t, "the other build has begun", func() bool {
		there, err := filepath.Glob(filepath.Join(folder, steps[n%len(steps)]))
		return err == nil && len(there) > 0 || alone() // that is over soon
	})
	pinned, _ := filepath.Glob(filepath.Join(folder, "*"))
	there, done := layouts(t, pins), alone()
	first.end(t, syscall.SIGKILL)
	t.Logf("killed when the folders were %v, with %d pins of layout %s; had it taken over: %t", there, len(pinned), layout, done)
	next := s.w.start(t, "--backend=ebpf")
	s.w.await(t, "the folder of layout "+layout+" is the only one", alone)
	left, err := ebpf.Left(s.w.ns.FD(), pins, true)
	if slices.Sort(left); err != nil || len(slices.Compact(slices.Clone(left))) < len(left) {
		t.Errorf("some programs are attached twice: %q, %v", left, err)
	}
	if text := next.log.String(); strings.Contains(text, "forgotten") {
		t.Errorf("something was forgotten:\n%s", text)
	}
	return next
}
