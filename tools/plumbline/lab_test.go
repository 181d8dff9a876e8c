package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/userns"
	"github.com/plumbline/plumbline/suites/stage"
)

// lab is the name of a test's runs, of its own, so that only what they left is looked at.
// It is as long as a name may be: paths of sockets hold it.
type lab string

var labs atomic.Int32 // so far

func newLab() lab { return lab(fmt.Sprintf("labkill-%03d%015d", labs.Add(1), os.Getpid())) }

// run is a short one in a lab; it needs the programs that `make build` makes.
func (l lab) run(t *testing.T) *exec.Cmd {
	return exec.Command(labProgram(t), "run", "-v", "--cluster=lab", "--name="+string(l), "--rows=plumb-nftables:fallback",
		"--rollouts=1", "--delay=5s", "--profile=l4-fast", "--await-quiet=0", "--results="+t.TempDir())
}

func labProgram(t *testing.T) string {
	t.Helper()
	need.Root(t)
	need.Program(t, "haproxy")
	return plumbline(t)
}

// plumbline is the program that `make build` has made.
func plumbline(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin/plumbline")
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		t.Fatalf("%v; run make build", err)
	}
	return bin
}

// A run in a lab that is killed at any step leaves what the next run, or clean,
// takes away; nothing else does.
func TestLabKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of labs")
	}
	t.Parallel() // it mostly waits
	l := newLab()
	for _, said := range []string{
		`msg=step name=network`, `msg=step name="control plane"`, `msg=step name=kubelets`,
		`msg=step name="control server"`, `msg=step name=ready`, `msg=step name=witness`, `name="load balancer provider"`,
		`msg=row`, `msg=recording`,
	} {
		t.Run(said, func(t *testing.T) {
			killAt(t, l.run(t), said)
			if left := l.leftovers(t); len(left) == 0 && said == "msg=recording" {
				t.Error("a run that was killed while recording left nothing: this test does not see")
			}
			l.sweep(t)
			if diff := cmp.Diff([]string(nil), l.leftovers(t)); diff != "" {
				t.Errorf("the next run does not take away (-want +got):\n%s", diff)
			}
		})
	}
}

// After a run that was killed the next one does all it has to.
func TestLabAfterKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of labs")
	}
	t.Parallel() // it mostly waits
	l := newLab()
	killAt(t, l.run(t), "msg=recording")
	// What it measures is not judged: other tests share the host.
	if out, err := l.run(t).CombinedOutput(); !strings.Contains(string(out), "rollout=1") {
		t.Errorf("a run after a killed one came to no rollout: %v\n%s", err, out)
	}
	if diff := cmp.Diff([]string(nil), l.leftovers(t)); diff != "" {
		t.Errorf("a run that ended left (-want +got):\n%s", diff)
	}
}

// An interrupt needs no clean: the run takes everything down itself.
func TestLabInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of a lab")
	}
	t.Parallel() // it mostly waits
	l := newLab()
	cmd := l.run(t)
	signalAt(t, cmd, "msg=recording", syscall.SIGINT)
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("an interrupted run exits with %d, want 2", code)
	}
	if diff := cmp.Diff([]string(nil), l.leftovers(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// An ordinary user's run, in a user namespace, judges as root's does and says what it lacks;
// what it makes is his. However it ends, nothing of it is left.
func TestLabOfOrdinaryUser(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of labs")
	}
	const uid = 65533
	l, bin := newLab(), labProgram(t)
	need.That(t, userns.Allowed(t.Context()) == nil, "user namespaces for ordinary users")
	dir, err := os.MkdirTemp("", "plumbline-user-")
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "plumbline")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, uid, uid), exec.Command("cp", bin, program).Run())
	}
	if err != nil {
		t.Fatal(err)
	}
	as := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Path, cmd.Args[0], cmd.Dir = program, program, dir
		cmd.Args = append(cmd.Args, "--results=results")
		cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir} // Debian's, of an ordinary user
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return cmd
	}
	out, err := as(exec.Command(bin, "conformance", "--cluster=lab", "--name="+string(l), "--focus=^clusterip-udp$")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "lacks          "+userns.Lacks) {
		t.Errorf("%v:\n%s", err, out)
	}
	signalAt(t, as(l.run(t)), "msg=recording", syscall.SIGTERM)
	killAt(t, as(l.run(t)), "msg=recording")
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := l.leftovers(t)
		for _, p := range processesOf(uid) {
			left = append(left, "process "+p)
		}
		if len(left) == 0 {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("left: %q", left)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == program {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Sys().(*syscall.Stat_t).Uid != uid {
			t.Errorf("%s is not the user's", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// processesOf are those of a user, as far as they live.
func processesOf(uid uint32) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		st, err := os.Stat(p)
		if exe, gone := os.Readlink(p + "/exe"); err == nil && gone == nil && st.Sys().(*syscall.Stat_t).Uid == uid {
			out = append(out, exe)
		}
	}
	return out
}

// sweep is the beginning of the next run of the name, which takes away what is there.
// It ends by itself after that and before it makes anything: a file is where its
// results have to go.
func (l lab) sweep(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := l.run(t)
	cmd.Args = append(cmd.Args, "--results="+filepath.Join(file, "results"))
	out, err := cmd.CombinedOutput()
	if code, said := cmd.ProcessState.ExitCode(), string(out); code != 2 ||
		!strings.Contains(said, "msg=step name=results") || strings.Contains(said, "msg=step name=lab") {
		t.Fatalf("it did not end where its results are made (%v):\n%s", err, said)
	}
}

func killAt(t *testing.T, cmd *exec.Cmd, said string) {
	t.Helper()
	signalAt(t, cmd, said, syscall.SIGKILL)
}

// signalAt starts a run and sends it a signal when it says something.
func signalAt(t *testing.T, cmd *exec.Cmd, said string, sig syscall.Signal) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	// What the run started may hold the pipe open after it.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = stderr.Close() })()
	seen, last := false, ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		last = lines.Text()
		if !seen && strings.Contains(last, said) {
			seen = true
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGKILL {
				break
			}
		}
	}
	err = cmd.Wait()
	if !seen {
		t.Fatalf("the run never said %q; its last line: %s (%v)", said, last, err)
	}
}

// leftovers lists what is there of the lab: namespaces, links, processes, files.
func (l lab) leftovers(t *testing.T) []string {
	t.Helper()
	lab := string(l)
	var out []string
	for _, pattern := range []string{"/run/netns/plumb-" + lab + "-*", "/sys/class/net/plumb-" + lab + "*", stage.StateDir + "/runs/" + lab + "-*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range cmdlines {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, "/runs/"+lab+"-") || strings.Contains(line, "--cluster-name="+lab+"-") {
			out = append(out, "process "+line)
		}
	}
	slices.Sort(out)
	return out
}
