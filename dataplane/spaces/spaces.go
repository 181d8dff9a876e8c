//go:build linux

// Package spaces runs functions in a network namespace.
package spaces

import (
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
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		if err := unix.Setns(netns, unix.CLONE_NEWNET); err != nil {
			out <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		out <- f()
	}()
	return <-out
}
