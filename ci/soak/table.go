package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plumbline/plumbline/ci/compiled"
)

// row is what came of one test.
type row struct {
	Folder, Test          string
	Hash                  string // of what it is compiled from
	Runs, Failed, Skipped int    // of that
	Commit                string // at the last run
}

// table are all rows, in a file. Safe for concurrent use, but that a row is changed by add
// alone.
type table struct {
	path string
	mu   sync.Mutex         // guards what follows, and the file
	rows map[[2]string]*row // by folder and test
	seen map[*row]bool      // those that were asked for since it was read
}

const head = "folder\ttest\thash\truns\tfailed\tskipped\tcommit"

// read reads the file; one that is not there has no rows.
func read(path string) (*table, error) {
	t := &table{path: path, rows: map[[2]string]*row{}, seen: map[*row]bool{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the results so far: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n == 1 && lines.Text() == head {
			continue
		}
		r, err := parse(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("read the results so far: %s:%d: %w", path, n, err)
		}
		t.rows[[2]string{r.Folder, r.Test}] = r
	}
	return t, lines.Err()
}

func parse(line string) (*row, error) {
	f := strings.Split(line, "\t")
	if len(f) != 7 {
		return nil, fmt.Errorf("%d fields, want 7", len(f))
	}
	r := &row{Folder: f[0], Test: f[1], Hash: f[2], Commit: f[6]}
	for i, into := range []*int{&r.Runs, &r.Failed, &r.Skipped} {
		n, err := strconv.Atoi(f[3+i])
		if err != nil {
			return nil, err
		}
		*into = n
	}
	return r, nil
}

// at is a test's row, empty if what it is compiled from is not what it was.
func (t *table) at(folder, test, hash string) *row {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := [2]string{folder, test}
	if r := t.rows[key]; r == nil || r.Hash != hash {
		t.rows[key] = &row{Folder: folder, Test: test, Hash: hash}
	}
	t.seen[t.rows[key]] = true
	return t.rows[key]
}

// keepFolders removes the rows of folders that have no tests any more.
func (t *table) keepFolders(packages []compiled.Tests) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.rows {
		if !slices.ContainsFunc(packages, func(p compiled.Tests) bool { return p.Folder == key[0] }) {
			delete(t.rows, key)
		}
	}
}

// keep removes the rows of a folder whose tests are no more.
func (t *table) keep(folder string, tests []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.rows {
		if key[0] == folder && !slices.Contains(tests, key[1]) {
			delete(t.rows, key)
		}
	}
}

// add notes one more run of a test.
func (t *table) add(r *row, commit string, failed, skipped bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Runs++
	r.Commit = commit
	switch {
	case failed:
		r.Failed++
	case skipped:
		r.Skipped++
	}
}

// failed counts the failures of tests that were asked for.
func (t *table) failed() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.seen {
		n += r.Failed
	}
	return n
}

// write replaces the file; rows that never ran are left out.
func (t *table) write() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for _, r := range t.rows {
		if r.Runs > 0 {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%d\t%s", r.Folder, r.Test, r.Hash, r.Runs, r.Failed, r.Skipped, r.Commit))
		}
	}
	slices.SortFunc(lines, cmp.Compare[string])
	text := strings.Join(append([]string{head}, lines...), "\n") + "\n"
	if err := errors.Join(os.WriteFile(t.path+".new", []byte(text), 0o644), os.Rename(t.path+".new", t.path)); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}
