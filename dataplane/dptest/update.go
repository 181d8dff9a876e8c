//go:build linux

package dptest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
)

// Update rewrites a section that a program may write, and nothing else of the
// file: it is read again under a lock and replaced at once, so that the tests of
// several backends may update at the same time, and a hand that saved the file
// since it was loaded loses nothing.
func (c *Case) Update(section, text string) error {
	if byHand(section) {
		return fmt.Errorf("update %s: section %s is written by hand", c.path, section)
	}
	err := locked(filepath.Dir(c.path), func() error {
		raw, err := os.ReadFile(c.path)
		if err != nil {
			return err
		}
		archive := txtar.Parse(raw)
		if err := put(archive, section, text); err != nil {
			return err
		}
		if now := txtar.Format(archive); !bytes.Equal(now, raw) {
			return replace(c.path, now)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("update section %s of %s: %w", section, c.path, err)
	}
	return nil
}

// put sets a section. A new one goes before the packets of its step.
func put(a *txtar.Archive, section, text string) error {
	named := func(name string) int {
		return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	}
	at := named(section)
	if at < 0 {
		_, step := splitStep(section)
		if at = named(ofStep("packets", step)); at < 0 {
			return fmt.Errorf("no packets of step %d", step)
		}
		a.Files = slices.Insert(a.Files, at, txtar.File{Name: section})
	}
	a.Files[at].Data = []byte(text)
	return nil
}

// locked runs f while no other process is in locked for the directory.
func locked(dir string, f func() error) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	return f()
}

// replace writes a file so that a reader sees the old text or the new.
func replace(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if _, err := tmp.Write(text); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
