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
	return steady(func() (ear, error) { return Listen(netns, table) }, func() (uint32, error) { return Generation(netns) }, read)
}

// ear is a Listener.
type ear interface {
	Touched(generation uint32) (bool, error)
	Close() error
}

func steady[T any](listen func() (ear, error), generation func() (uint32, error), read func() (T, error)) (T, error) {
	var none T
	var failed error
	for range tries {
		out, ours, err := once(listen, generation, read, &failed)
		if err != nil {
			return none, err
		}
		if !ours && !errors.Is(failed, ErrInterrupted) {
			return out, failed
		}
	}
	if failed != nil {
		return none, fmt.Errorf("read %d times: %w", tries, failed)
	}
	return none, fmt.Errorf("somebody else changed the tables during each of %d readings", tries)
}

// once listens anew: to a socket that has missed something the kernel tells nothing, and not
// that it does not, until all before that is read.
func once[T any](listen func() (ear, error), generation func() (uint32, error), read func() (T, error), failed *error) (out T, ours bool, err error) {
	l, err := listen()
	if err != nil {
		return out, false, err
	}
	defer l.Close()
	before, err := generation()
	if err != nil {
		return out, false, err
	}
	out, *failed = read()
	after, err := generation()
	if err != nil || after == before {
		return out, false, err
	}
	ours, err = l.Touched(after)
	return out, ours, err
}
