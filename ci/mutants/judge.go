package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/plumbline/plumbline/ci/compiled"
	"github.com/plumbline/plumbline/fixtures/host"
)

// judge is one run of this program.
type judge struct {
	targets  []target
	chosen   *regexp.Regexp // of their folders
	contract bool
	until    time.Time     // zero: no end
	patience time.Duration // beyond four times what a stage takes without a mutant

	root, dir string            // of the module; for temporary files
	hashes    map[string]string // of what tests are compiled from, by folder
	table     *table
	reasons   *reasons
	many      *program                // with all mutants of a target that can be in one
	whole     map[stage]time.Duration // how long a stage takes without a mutant
}

// all judges what has no verdict that holds.
func (j *judge) all(ctx context.Context) (sum summary, err error) {
	if !slices.ContainsFunc(j.targets, func(t target) bool { return j.chosen.MatchString(t.folder) }) {
		return sum, fmt.Errorf("of the folders that are mutated %q matches none", j.chosen)
	}
	if j.root, err = os.Getwd(); err != nil {
		return sum, err
	}
	if j.table, err = readTable(tableFile); err != nil {
		return sum, err
	}
	if j.reasons, err = readReasons(reasonsFile); err != nil {
		return sum, err
	}
	tests, err := compiled.All(ctx)
	if err != nil {
		return sum, err
	}
	j.hashes = map[string]string{}
	for _, t := range tests {
		j.hashes[t.Folder] = t.Hash
	}
	state, err := host.UserStateDir()
	if err != nil {
		return sum, err
	}
	itself, err := host.BeginRun(ctx, state, "mutants")
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, itself.End(context.WithoutCancel(ctx))) }()
	if err := itself.Private(); err != nil { // a test that was killed may leave something that lives on
		return sum, err
	}
	if j.dir, err = itself.TempDir(); err != nil {
		return sum, err
	}
	for _, t := range j.targets {
		if j.chosen.MatchString(t.folder) {
			if err := j.target(ctx, t, &sum); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

func (j *judge) over(ctx context.Context) bool {
	return ctx.Err() != nil || !j.until.IsZero() && time.Now().After(j.until)
}

func (j *judge) target(ctx context.Context, t target, sum *summary) error {
	src, err := load(j.root, t.folder)
	if err != nil {
		return err
	}
	all, err := src.mutants(t.files)
	if err != nil {
		return err
	}
	j.table.keep(t.folder, all)
	if j.many, err = newProgram(filepath.Join(j.dir, filepath.Base(t.folder)), src.switched(all)); err != nil {
		return err
	}
	// A test that is new is most likely for what nothing noticed.
	slices.SortStableFunc(all, func(a, b mutant) int { return j.table.noticed(a) - j.table.noticed(b) })
	j.whole = map[stage]time.Duration{}
	for _, m := range all {
		r := j.table.rows[m.Name]
		if !j.holds(t, m, r) {
			if r, err = j.anew(ctx, t, m, r, sum); err != nil {
				return fmt.Errorf("%s, %s: %w", m.Name, m.Change, err)
			}
		}
		sum.add(m, r, j.reasons)
	}
	return j.table.write() // without those that are no more
}

// anew judges a mutant whose verdict, if it has one, no longer holds, and writes it down. There is no row if the
// time is over, or if those asked cannot tell.
func (j *judge) anew(ctx context.Context, t target, m mutant, was *row, sum *summary) (r *row, err error) {
	if was != nil && was.Change != m.Change {
		was = nil
	}
	if !j.over(ctx) {
		begun := time.Now()
		if r, err = j.mutant(ctx, t, m, was); err != nil {
			return nil, err
		}
		said := "not judged without the contract"
		if r != nil {
			said = r.Verdict + " " + r.By
		}
		fmt.Printf("%s: %s in %v\n", m.Name, said, time.Since(begun).Round(time.Millisecond))
	}
	if r == nil {
		if was != nil {
			sum.older++
		}
		return nil, nil
	}
	sum.anew++
	j.table.rows[m.Name] = r
	return r, j.table.write()
}

// holds tells whether a verdict is that of tests as they are: of the stage that noticed the
// mutant, or of all stages.
func (j *judge) holds(t target, m mutant, r *row) bool {
	if r == nil || r.Change != m.Change {
		return false
	}
	if r.Verdict == survived {
		return r.Hash == j.hash(t.stages) || !j.contract && r.Hash == j.hash(j.asked(t))
	}
	for _, s := range t.stages {
		if r.By == s.name && r.Hash == j.hash([]stage{s}) {
			return true
		}
	}
	return false
}

// asked are the stages of this run.
func (j *judge) asked(t target) (out []stage) {
	for _, s := range t.stages {
		if j.contract || !s.contract {
			out = append(out, s)
		}
	}
	return out
}

// hash is of what stages are compiled from, and which of their tests are run.
func (j *judge) hash(stages []stage) string {
	sum := sha256.New()
	for _, s := range stages {
		fmt.Fprintln(sum, s.folder, s.run, j.hashes[s.folder])
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// mutant puts one before the stages, first the one that noticed it before. Without the contract there is no row
// for one that no other stage notices, if it did not survive before.
func (j *judge) mutant(ctx context.Context, t target, m mutant, was *row) (*row, error) {
	p, number := j.many, m.number
	if m.arguments == nil {
		var err error
		if p, err = newProgram(filepath.Join(j.dir, "one"), map[string]string{m.path: m.text()}); err != nil {
			return nil, err
		}
		number = 0
	}
	stages := j.asked(t)
	if was != nil && was.Verdict != survived {
		for i, s := range stages {
			if s.name == was.By {
				stages[0], stages[i] = stages[i], stages[0]
				break
			}
		}
	}
	for _, s := range stages {
		verdict, test, err := j.stage(ctx, s, p, number)
		if err != nil {
			return nil, err
		}
		if verdict != survived {
			return &row{Name: m.Name, Line: m.Line, Change: m.Change, Verdict: verdict, By: s.name, Test: test, Hash: j.hash([]stage{s})}, nil
		}
	}
	if len(stages) < len(t.stages) && (was == nil || was.Verdict != survived) {
		return nil, nil
	}
	return &row{Name: m.Name, Line: m.Line, Change: m.Change, Verdict: survived, Hash: j.hash(j.asked(t))}, nil
}
