//go:build linux

package host_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/plumbline/plumbline/fixtures/need"
)

const nobody = 65534

// script copies prepare.sh to where every user may read it.
func script(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("prepare.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "prepare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "prepare.sh")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRefuses runs the script as an unprivileged user, so that nothing can be
// changed whatever it does.
func TestRefuses(t *testing.T) {
	need.Program(t, "bash")
	path := script(t)
	release := func(text string) string {
		file := filepath.Join(filepath.Dir(path), "os-release-"+strings.Fields(text + " x")[0])
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return "PLUMBLINE_OS_RELEASE=" + file
	}
	debian := release("ID=debian\n")
	bare := filepath.Join(filepath.Dir(path), "bin") // of a host with nothing installed
	dirname, err := exec.LookPath("dirname")
	if err := errors.Join(err, os.Mkdir(bare, 0o755), os.Symlink(dirname, filepath.Join(bare, "dirname"))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"a user", []string{debian}, nil, []string{"needs root", "run: sudo " + path}},
		{"a user of Ubuntu", []string{release("ID=ubuntu\nID_LIKE=debian\n")}, nil, []string{"needs root"}},
		{"a child of Debian", []string{release("ID=mint\nID_LIKE=\"ubuntu debian\"\n")}, nil, []string{"needs root"}},
		{"Fedora", []string{release("ID=fedora\n")}, nil, []string{"not Debian or Ubuntu (fedora)", "Docker engine"}},
		{"nothing known", []string{"PLUMBLINE_OS_RELEASE=/does/not/exist"}, nil, []string{"not Debian or Ubuntu (unknown)"}},
		{"an engine elsewhere", []string{debian, "DOCKER_HOST=tcp://192.0.2.1:2375"}, nil, []string{"DOCKER_HOST is tcp://192.0.2.1:2375"}},
		{"a user who wants pages", []string{debian, "PATH=" + bare}, []string{"--pages"}, []string{"missing: ", "chromium", "run: sudo " + path + " --pages"}},
		{"an unknown argument", []string{debian}, []string{"--force"}, []string{"unknown argument --force", "usage:"}},
		{"no engine, only looking", []string{debian, "DOCKER_HOST=unix:///does/not/exist"}, []string{"--check"},
			[]string{"no Docker engine answers", "not prepared"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stdout, stderr, status := run(t, path, tc.env, tc.args...)
			if status != 2 {
				t.Errorf("exit %d", status)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in: %s", want, stderr)
				}
			}
			if stdout != "" {
				t.Errorf("says that it did something: %s", stdout)
			}
			for line := range strings.Lines(stderr) {
				if !strings.HasPrefix(line, "host: ") {
					t.Errorf("not a line of ours: %q", line)
				}
			}
		})
	}
}

func TestScriptIsWellFormed(t *testing.T) {
	need.Program(t, "bash")
	if out, err := exec.Command("bash", "-n", "prepare.sh").CombinedOutput(); err != nil {
		t.Errorf("bash -n: %s", out)
	}
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Log("shellcheck is not there")
		return
	}
	if out, err := exec.Command("shellcheck", "prepare.sh").CombinedOutput(); err != nil {
		t.Errorf("shellcheck:\n%s", out)
	}
}

func run(t *testing.T, path string, env []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.Command("bash", append([]string{path}, args...)...)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// Two that prepare one host take turns: the second says so, and goes on when the first
// has ended.
func TestTakesTurns(t *testing.T) {
	need.Program(t, "bash")
	need.Program(t, "flock")
	text, err := os.ReadFile("prepare.sh")
	if err != nil {
		t.Fatal(err)
	}
	// The place of the lock is this test's, and nothing is prepared.
	lock := t.TempDir()
	body := strings.Replace(string(text), "readonly LOCK=/var/lib/dpkg", "readonly LOCK="+lock, 1)
	before, _, found := strings.Cut(body, "\nmain \"$@\"")
	if !found || before == string(text) {
		t.Fatal("prepare.sh has another form")
	}
	path := filepath.Join(t.TempDir(), "prepare.sh")
	if err := os.WriteFile(path, []byte(before+"\ntake_turns\nsay mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := exec.Command("flock", lock, "sh", "-c", "echo held; read line")
	in, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	held, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	second := exec.Command("bash", path)
	said, err := second.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	if !lines.Scan() || lines.Text() != "host: wait for another that prepares this host" {
		t.Errorf("it says %q", lines.Text())
	}
	_, err = io.WriteString(in, "end\n")
	if err := errors.Join(err, first.Wait()); err != nil {
		t.Error(err)
	}
	if !lines.Scan() || lines.Text() != "host: mine" {
		t.Errorf("it says %q", lines.Text())
	}
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
}

// A pid file that names a process which is no dockerd's goes; one that names nobody, or a real one,
// stays: dockerd knows what to do.
func TestForgetsOthers(t *testing.T) {
	need.Program(t, "bash")
	text, err := os.ReadFile("prepare.sh")
	if err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	body := strings.Replace(string(text), "readonly DOCKER_RUN=/var/run", "readonly DOCKER_RUN="+place, 1)
	before, _, found := strings.Cut(body, "\nmain \"$@\"")
	if !found || before == string(text) {
		t.Fatal("prepare.sh has another form")
	}
	path := filepath.Join(t.TempDir(), "prepare.sh")
	if err := os.WriteFile(path, []byte(before+"\nforget_others\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// A program of that name, by which a live one is known.
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(t.TempDir(), "dockerd")
	if err := os.WriteFile(real, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	live := exec.Command(real, "-c", "read line")
	if _, err := live.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = live.Process.Kill(); _ = live.Wait() })
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(place, "docker.pid")
	for name, tc := range map[string]struct {
		pid   int
		stays bool
	}{
		"of this test": {os.Getpid(), false}, "of a dockerd": {live.Process.Pid, true}, "of nobody": {ended.Process.Pid, true},
	} {
		if err := os.WriteFile(pidFile, []byte(strconv.Itoa(tc.pid)), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("bash", path).CombinedOutput()
		_, gone := os.Stat(pidFile)
		if err != nil || (gone == nil) != tc.stays || strings.Contains(string(out), "is not its") == tc.stays {
			t.Errorf("%s: %v, %s; is there: %v, want %v", name, err, out, gone == nil, tc.stays)
		}
	}
}
