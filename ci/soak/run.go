package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plumbline/plumbline/ci/compiled"
	"github.com/plumbline/plumbline/fixtures/host"
)

const (
	listFile   = "ci/realtime.txt"
	tableFile  = "ci/soak.tsv"
	haltedFile = "ci/soak-halted.tsv"
	logs       = "results/soak"
)

// contract is the test of a backend that runs the contract's cases; waiting are the parts
// of it that wait for time.
const (
	contract = "TestContract"
	waiting  = contract + "/(Connections|Expiry|Histories)"
)

// limit is how long one run of one test may take: what takes longer hangs. A backend's contract took more than a quarter
// of an hour beside busy loops and six other packages.
const limit = 45 * time.Minute

// all runs what is still to be run, package by package.
func (s *soak) all(ctx context.Context) (err error) {
	if s.table, err = read(s.file()); err != nil {
		return err
	}
	text, err := os.ReadFile(listFile)
	if err != nil {
		return fmt.Errorf("read the tests that depend on real time: %w", err)
	}
	real := strings.Split(strings.TrimSpace(string(text)), "\n")
	packages, err := compiled.All(ctx)
	if err != nil {
		return err
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("name the commit: %w", err)
	}
	state, err := host.UserStateDir()
	if err != nil {
		return err
	}
	itself, err := host.BeginRun(ctx, state, "soak")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, itself.End(context.WithoutCancel(ctx))) }()
	if err := itself.Private(); err != nil { // a test that was killed may leave something that lives on
		return err
	}
	dir, err := itself.TempDir()
	if err != nil {
		return fmt.Errorf("make a folder for the test binaries: %w", err)
	}
	begun := time.Now()
	s.table.keepFolders(packages)
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(s.beside)
	for _, p := range packages {
		if !s.packages.MatchString(p.Folder) {
			continue
		}
		t := &trial{soak: s, Tests: p, binary: filepath.Join(dir, strings.ReplaceAll(p.Folder, "/", "-")+".test"), commit: strings.TrimSpace(string(commit)), real: real}
		if s.budget > 0 {
			t.until = begun.Add(s.budget)
		}
		running.Go(func() error { return t.run(ctx) })
	}
	return running.Wait()
}

// trial is the running of one package's tests.
type trial struct {
	*soak
	compiled.Tests
	binary, commit string
	real           []string // all tests that depend on real time, as folder and name
	until          time.Time
}

func (t *trial) over(ctx context.Context) bool {
	return ctx.Err() != nil || !t.until.IsZero() && time.Now().After(t.until)
}

// run does rounds until every test has its runs. Each round is in another order.
func (t *trial) run(ctx context.Context) error {
	if t.over(ctx) {
		return nil
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", t.binary, t.Path)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w: %s", t.Folder, err, out)
	}
	defer os.Remove(t.binary)
	tests, err := t.list(ctx)
	if err != nil {
		return err
	}
	t.table.keep(t.Folder, tests)
	for {
		rand.Shuffle(len(tests), func(i, j int) { tests[i], tests[j] = tests[j], tests[i] })
		ran := 0
		for _, test := range tests {
			r := t.table.at(t.Folder, test, t.Hash)
			if r.Runs >= t.wanted(r) || t.over(ctx) {
				continue
			}
			ran++
			if err := errors.Join(t.once(ctx, r), t.table.write()); err != nil {
				return err
			}
		}
		if ran == 0 {
			return t.table.write()
		}
	}
}

// wanted is how often a test is to be run.
func (t *trial) wanted(r *row) int {
	switch {
	case !slices.Contains(t.real, t.Folder+" "+r.Test) && r.Test != waiting, r.Test == contract && r.Failed == 0:
		return few
	}
	return t.rounds
}

// list are the tests of a package.
func (t *trial) list(ctx context.Context) ([]string, error) {
	cmd := exec.CommandContext(ctx, t.binary, "-test.list", "^Test")
	cmd.Dir = t.Folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", t.Folder, err)
	}
	tests := strings.Fields(string(out))
	tests = slices.DeleteFunc(tests, func(name string) bool { return !strings.HasPrefix(name, "Test") })
	if slices.Contains(tests, contract) {
		tests = append(tests, waiting)
	}
	return tests, nil
}

// What a test says of itself that ran, or would have.
var (
	ran     = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): `)
	skipped = regexp.MustCompile(`(?m)^--- SKIP: `)
)

// once runs one test, in a process of its own.
func (t *trial) once(ctx context.Context, r *row) error {
	pattern := "^" + r.Test + "$"
	if r.Test == waiting {
		const parts = "/^(Connections|Expiry|Histories)$"
		pattern = "^" + contract + "$" + parts + "|^" + contract + "$/^(nft|legacy)$" + parts // iptables has it by flavour
	}
	begun := time.Now()
	cmd := exec.CommandContext(ctx, t.binary, "-test.run", pattern, "-test.v", "-test.timeout", limit.String())
	cmd.Dir = t.Folder
	cmd.Env = append(os.Environ(), "REQUIRE=1")
	cmd.WaitDelay = time.Minute // what the test left may hold its output open
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil // it did not end by itself
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("run %s of %s: %w", r.Test, t.Folder, err)
	}
	if err == nil && !ran.Match(out) {
		err = errors.New("nothing ran")
	}
	t.table.add(r, t.commit, err != nil, skipped.Match(out))
	said := "ok"
	switch {
	case err != nil:
		path, kept := t.keepLog(r, out)
		said = fmt.Sprintf("FAILED (%v): %s", err, path)
		if kept != nil {
			return kept
		}
	case skipped.Match(out):
		said = "skipped"
	}
	fmt.Printf("%s %s run %d: %s in %v\n", t.Folder, r.Test, r.Runs, said, time.Since(begun).Round(time.Millisecond))
	return nil
}

// keepLog keeps what a test that failed has said.
func (t *trial) keepLog(r *row, out []byte) (string, error) {
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune("/()|", c) {
			return '-'
		}
		return c
	}, fmt.Sprintf("%s.%s.%s.%d.log", t.Folder, r.Test, r.Hash, r.Runs))
	path := filepath.Join(logs, name)
	if err := errors.Join(os.MkdirAll(logs, 0o755), os.WriteFile(path, out, 0o644)); err != nil {
		return path, fmt.Errorf("keep what a test said: %w", err)
	}
	return path, nil
}
