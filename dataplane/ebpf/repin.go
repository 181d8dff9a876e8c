package ebpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// repin pins anew what is at work here and whose pin somebody has taken away: the next process finds
// maps and programs by these alone.
func (t *Target) repin() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	folder := layoutFolder(t.cfg.Pins)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of pins: %w", err)
	}
	for name, at := range t.objs.pinned() {
		if err := pinAnew(filepath.Join(folder, name), (*at).Clone); err != nil {
			return err
		}
	}
	if t.socks != nil {
		for name, at := range t.socks.pinned() {
			if err := pinAnew(filepath.Join(folder, name), (*at).Clone); err != nil {
				return err
			}
		}
		for _, h := range t.socks.hooks() {
			if err := pinAnew(h.pin(t.cfg.Pins), (*h.program).Clone); err != nil {
				return err
			}
		}
	}
	for _, h := range t.objs.hooks() {
		if !t.alone { // attach pins it
			break
		}
		if err := pinAnew(h.path(t.cfg.Pins), h.program.Clone); err != nil {
			return err
		}
	}
	return nil
}

type pinnable interface {
	Pin(string) error
	Close() error
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
