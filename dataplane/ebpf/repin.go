package ebpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// lasting are the pins that are to be there, by their paths, and what makes each anew. Links are not among
// them, for a link ends with its pin, and is made anew as a program that is missing; nor are programs of devices
// before attach has pinned them. It is called with mu held.
func (t *Target) lasting() map[string]func(path string) error {
	out := map[string]func(string) error{}
	if t.objs == nil {
		return out
	}
	folder := layoutFolder(t.cfg.Pins)
	for name, at := range t.objs.pinned() {
		out[filepath.Join(folder, name)] = anew((*at).Clone)
	}
	for _, h := range t.objs.hooks() {
		if t.alone {
			out[h.path(t.cfg.Pins)] = anew(h.program.Clone)
		}
	}
	if t.socks == nil {
		return out
	}
	for name, at := range t.socks.pinned() {
		out[filepath.Join(folder, name)] = anew((*at).Clone)
	}
	for _, h := range t.socks.hooks() {
		out[h.pin(t.cfg.Pins)] = anew((*h.program).Clone)
	}
	return out
}

// repin pins anew what is at work here and whose pin somebody has taken away: the next process finds
// maps and programs by these alone.
func (t *Target) repin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	pins := t.lasting()
	if len(pins) == 0 {
		return nil
	}
	if err := os.MkdirAll(layoutFolder(t.cfg.Pins), 0o700); err != nil {
		return fmt.Errorf("make the folder of pins: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(pins)) {
		if err := pins[path](path); err != nil {
			return err
		}
	}
	return nil
}

type pinnable interface {
	Pin(string) error
	Close() error
}

func anew[P pinnable](clone func() (P, error)) func(path string) error {
	return func(path string) error { return pinAnew(path, clone) }
}

// pinAnew pins a clone where nothing is: the object itself takes its lost pin for one to rename.
func pinAnew[P pinnable](path string, clone func() (P, error)) error {
	_, err := os.Stat(path)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p, err := clone()
	if err != nil {
		return fmt.Errorf("pin %s anew: %w", path, err)
	}
	if err := errors.Join(p.Pin(path), p.Close()); err != nil {
		return fmt.Errorf("pin %s anew: %w", path, err)
	}
	return nil
}

// errNoPins is the error of where nothing can be pinned.
var errNoPins = errors.New("nothing can be pinned")

// Unpinnable says why nothing can be pinned any more, as when the bpffs has been unmounted; nil: it can, or
// nothing is open. Changes are made all the same. What goes with its pin is away until something can be pinned
// again: the programs at sockets. What serves on is not found by the next process.
func (t *Target) Unpinnable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil {
		return nil
	}
	return mayPin(layoutFolder(t.cfg.Pins))
}

// mayPin tells why nothing can be pinned in a folder.
func mayPin(folder string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return fmt.Errorf("%w: look at the folder of pins %s: %w", errNoPins, folder, err)
	}
	if fs.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%w: the folder of pins %s is in no bpffs", errNoPins, folder)
	}
	return nil
}
