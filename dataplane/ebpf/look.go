package ebpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// look is how often it is asked whether the maps have the entries that were written, and their pins.
// Where the kernel makes that cost time (before Linux 6.4), it is so seldom that it takes a part of
// 1/lookShare of a processor.
const (
	look      = 250 * time.Millisecond
	lookShare = 50
)

// looks calls lost once for what somebody took away, until a complete Apply has put that back.
func (t *Target) looks(ctx context.Context, lost func()) error {
	for wait := look; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		what, busy, err := t.taken()
		wait = max(look, lookShare*busy)
		if err != nil {
			t.log.Warn("whether somebody took something out of the maps cannot be told", "err", err)
		}
		if len(what) > 0 {
			t.log.Info("of what is kept in the kernel something is gone, or more", "what", what)
			lost()
		}
	}
}

// taken names the maps that have other entries than were written, and the pins that are missing. What
// it has named it leaves alone until the next complete Apply.
func (t *Target) taken() (what []string, busy time.Duration, err error) {
	if !t.ledger.known() {
		return nil, 0, nil
	}
	maps, busy, err := t.ledger.wrong()
	for _, name := range maps {
		what = append(what, "entries of map "+name)
	}
	pins, failed := t.unpinned()
	for _, name := range pins {
		what = append(what, "pin "+name)
	}
	if len(what) > 0 {
		t.ledger.close()
		t.mu.Lock()
		t.short = maps
		t.mu.Unlock()
	}
	return what, busy, errors.Join(err, failed)
}

// unpinned names the pins that are missing of what is at work: links are not among them, for a link
// ends with its pin, and is made anew as a program that is missing.
func (t *Target) unpinned() (missing []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.objs == nil || !t.alone { // it is being pinned
		return nil, nil
	}
	there, err := os.ReadDir(layoutFolder(t.cfg.Pins))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for the pins: %w", err)
	}
	for _, path := range t.pins() {
		name := filepath.Base(path)
		if !slices.ContainsFunc(there, func(e os.DirEntry) bool { return e.Name() == name }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// pins are the paths of those that last, but for links. It is called with mu held.
func (t *Target) pins() (out []string) {
	folder := layoutFolder(t.cfg.Pins)
	for name := range t.objs.pinned() {
		out = append(out, filepath.Join(folder, name))
	}
	for _, h := range t.objs.hooks() {
		out = append(out, h.path(t.cfg.Pins))
	}
	if t.socks == nil {
		return out
	}
	for name := range t.socks.pinned() {
		out = append(out, filepath.Join(folder, name))
	}
	for _, h := range t.socks.hooks() {
		out = append(out, h.pin(t.cfg.Pins))
	}
	return out
}
