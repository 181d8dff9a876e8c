//go:build linux

package commits

import (
	"errors"
	"fmt"
)

// ErrInterrupted is a reading's word that it missed something.
var ErrInterrupted = errors.New("nftables changed meanwhile")

// tries bounds the readings that are begun anew because somebody wrote to the tables
// meanwhile. The caller tries again later.
const tries = 5

// Steady reads tables back, which takes many messages, so that a transaction between two
// may make the reading miss something: one that was about these tables, as far as it tells
// itself and as the kernel tells of others' commits, is begun anew.
func Steady[T any](netns int, table string, read func() (T, error)) (T, error) {
	var none T
	l, err := Listen(netns, table)
	if err != nil {
		return none, err
	}
	defer l.Close()
	return steady(func() (uint32, error) { return Generation(netns) }, l.Touched, read)
}

func steady[T any](generation func() (uint32, error), touched func(uint32) (bool, error), read func() (T, error)) (out T, err error) {
	var none T
	before, err := generation()
	if err != nil {
		return none, err
	}
	var failed error
	for range tries {
		out, failed = read()
		after, err := generation()
		if err != nil {
			return none, err
		}
		ours := false
		if after != before {
			if ours, err = touched(after); err != nil {
				return none, err
			}
		}
		if !ours && !errors.Is(failed, ErrInterrupted) {
			return out, failed
		}
		before = after
	}
	if failed != nil {
		return none, fmt.Errorf("read %d times: %w", tries, failed)
	}
	return none, fmt.Errorf("somebody else changed the tables during each of %d readings", tries)
}
