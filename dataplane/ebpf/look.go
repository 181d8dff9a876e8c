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

// look is how often it is asked whether the maps have the entries that were written, and whether all pins are
// there.
// Where the kernel makes that cost time (before Linux 6.4), it is so seldom that it takes a part of
// 1/lookShare of a processor.
const (
	look      = 250 * time.Millisecond
	lookShare = 50
)

// looks calls lost once for entries that somebody took out, until a complete Apply has put them back. Pins that
// somebody took away it puts back itself: nothing is to be compared for that.
func (t *Target) looks(ctx context.Context, lost func()) error {
	maps := complaint{log: t.log, about: "whether somebody took something out of the maps cannot be told"}
	pins := complaint{log: t.log, about: "pins that somebody took away cannot be put back: the next process will not find what they held"}
	for wait := look; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		short, busy, err := t.taken()
		wait = max(look, lookShare*busy)
		if maps.say(err); len(short) > 0 {
			t.log.Info("of maps that nobody else writes entries are gone, or there are more", "maps", short)
			lost()
		}
		back, err := t.unpinned()
		if pins.say(err); len(back) > 0 {
			t.log.Warn("somebody took pins away: they are there again", "pins", back)
		}
	}
}

// taken names the maps that have other entries than were written. What it has named it leaves alone until the
// next complete Apply.
func (t *Target) taken() (short []string, busy time.Duration, err error) {
	short, busy, err = t.ledger.wrong()
	if len(short) > 0 {
		t.ledger.close()
		t.mu.Lock()
		t.short = short
		t.mu.Unlock()
	}
	return short, busy, err
}

// unpinned puts the pins back that are missing, and names them.
func (t *Target) unpinned() (back []string, err error) {
	missing, err := t.missingPins()
	if err == nil && len(missing) > 0 {
		err = t.repin()
	}
	if err != nil {
		return nil, err
	}
	return missing, nil
}

func (t *Target) missingPins() (names []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pins := t.lasting()
	if len(pins) == 0 {
		return nil, nil
	}
	there, err := os.ReadDir(layoutFolder(t.cfg.Pins))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("look for the pins: %w", err)
	}
	for path := range pins {
		name := filepath.Base(path)
		if !slices.ContainsFunc(there, func(e os.DirEntry) bool { return e.Name() == name }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
