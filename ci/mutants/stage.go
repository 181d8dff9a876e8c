package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/fixtures/netns"
)

// What a stage says of a mutant.
const (
	killed   = "killed"
	hung     = "hung" // until its time was over, which is noticed too
	survived = "survived"
)

// memory bounds a mutant that takes more and more: nothing here needs near as much.
const memory = 4 << 30

// program is a package with mutants: one, or those that a number chooses from.
type program struct {
	dir, overlay string
	tests        map[string]string // that were compiled with it, by their folder
}

// newProgram writes down, in a new folder, texts by the path that they are in the place of.
func newProgram(dir string, texts map[string]string) (*program, error) {
	p := &program{dir, filepath.Join(dir, "overlay.json"), map[string]string{}}
	err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		err = errors.Join(err, os.WriteFile(replace[path], []byte(text), 0o600))
	}
	text, marshal := json.Marshal(map[string]any{"Replace": replace})
	if err = errors.Join(err, marshal, os.WriteFile(p.overlay, text, 0o600)); err != nil {
		return nil, fmt.Errorf("write mutants down: %w", err)
	}
	return p, nil
}

// compile compiles the tests of a folder, which has to succeed: the mutants were looked at before.
func (p *program) compile(ctx context.Context, folder string) (string, error) {
	if done := p.tests[folder]; done != "" {
		return done, nil
	}
	binary := filepath.Join(p.dir, strings.ReplaceAll(folder, "/", "-")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", p.overlay, "-o", binary, "./"+folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the tests of %s: %w: %s", folder, err, out)
	}
	p.tests[folder] = binary
	return binary, nil
}

// stage runs the tests of a stage with a mutant. They have to pass without one.
func (j *judge) stage(ctx context.Context, s stage, p *program, number int) (verdict, test string, err error) {
	if _, known := j.whole[s]; !known {
		begun := time.Now()
		if err := j.without(ctx, s); err != nil {
			return "", "", err
		}
		j.whole[s] = time.Since(begun)
	}
	limit := j.patience + 4*j.whole[s]
	verdict, test, _, err = j.tests(ctx, s, p, number, limit)
	if err == nil && (verdict == hung || verdict == killed && s.kernel) { // it may have been the host
		verdict, test, _, err = j.tests(ctx, s, p, number, limit)
	}
	if err == nil && verdict == killed && (test == unnamed || test == panicked) {
		if err := j.without(ctx, s); err != nil {
			return "", "", fmt.Errorf("after a mutant that ended them with %s: %w", test, err)
		}
	}
	return verdict, test, err
}

// without runs the tests of a stage without a mutant.
func (j *judge) without(ctx context.Context, s stage) error {
	verdict, test, out, err := j.tests(ctx, s, j.many, 0, 20*time.Minute)
	if err == nil && verdict != survived {
		err = fmt.Errorf("%s: %s", cmp.Or(test, verdict), out)
	}
	if err != nil {
		return fmt.Errorf("tests of %s without a mutant: %w", s.folder, err)
	}
	return nil
}

// tests runs the tests of a stage, in a process of their own, until the first has failed.
func (j *judge) tests(ctx context.Context, s stage, p *program, number int, limit time.Duration) (verdict, test string, out []byte, err error) {
	binary, err := p.compile(ctx, s.folder)
	if err != nil {
		return "", "", nil, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, binary, "-test.run", s.run, "-test.failfast", "-test.timeout", "0")
	cmd.Dir = filepath.Join(j.root, s.folder)
	cmd.Env = append(os.Environ(), "REQUIRE=1", fmt.Sprintf("%s=%d", numberVar, number))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Minute // what the test left may hold its output open
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return "", "", nil, fmt.Errorf("run the tests of %s: %w", s.folder, err)
	}
	limits := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: memory, Max: memory}, nil)
	err = cmd.Wait()
	if left := netns.DeleteTests(cmd.Process.Pid); left != nil { // of one that was killed, or has panicked
		return "", "", nil, fmt.Errorf("tidy up after the tests of %s: %w", s.folder, left)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", "", nil, ctx.Err()
	case limited.Err() != nil:
		return hung, "", said.Bytes(), nil
	case errors.As(err, &exit):
		return killed, who(said.Bytes()), said.Bytes(), nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", "", nil, fmt.Errorf("run the tests of %s: %w", s.folder, err)
	case limits != nil && !errors.Is(limits, unix.ESRCH):
		return "", "", nil, fmt.Errorf("limit the memory of the tests of %s: %w", s.folder, limits)
	case strings.Contains(said.String(), "no tests to run"):
		return "", "", nil, fmt.Errorf("run the tests of %s: none is called %s", s.folder, s.run)
	}
	return survived, "", said.Bytes(), nil
}

// What ended tests that do not say which of them failed: all of them.
const (
	panicked = "panic"
	unnamed  = "exit"
)

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// who is the test that failed.
func who(said []byte) string {
	if f := failed.FindSubmatch(said); f != nil {
		return string(f[1])
	}
	if bytes.Contains(said, []byte("panic: ")) || bytes.Contains(said, []byte("fatal error: ")) {
		return panicked
	}
	return unnamed
}
