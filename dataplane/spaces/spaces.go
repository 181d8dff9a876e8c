//go:build linux

// Package spaces runs functions in a network namespace.
package spaces

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread in the namespace of a descriptor; 0 is the process's own. A
// namespace belongs to a thread: this one ends with the call. What f starts in a goroutine
// of its own runs outside; a socket that f opens, and a process that it starts, stay inside.
func Do(netns int, f func() error) error {
	if netns == 0 {
		return f()
	}
	out := make(chan error, 1)
	go enter(netns, f, out)
	return <-out
}

func enter(netns int, f func() error, out chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // this thread does not end, and others take its namespace for the process's
		defer runtime.UnlockOSThread()
		out <- Do(netns, f) // on another, while this one is held
		return
	}
	// Never unlocked: the thread ends with the goroutine.
	err := errors.New("the function ended its goroutine") // as testing.T.Fatal does
	defer func() { out <- err }()
	if failed := unix.Setns(netns, unix.CLONE_NEWNET); failed != nil {
		err = fmt.Errorf("enter network namespace: %w", failed)
		return
	}
	err = f()
}
