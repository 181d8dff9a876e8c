package userspace

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// space runs functions in a network namespace. A namespace belongs to a thread,
// so unless it is the process's own there is one thread that stays inside and
// does what has to be done there: open a socket, speak to rtnetlink.
type space struct {
	calls chan func() // nil: the process's own namespace
	done  chan struct{}
}

// enter makes the thread for the namespace of a descriptor; 0 is the own one.
func enter(fd int) (*space, error) {
	if fd == 0 {
		return &space{}, nil
	}
	s := &space{calls: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		err := unix.Setns(fd, unix.CLONE_NEWNET)
		ready <- err
		if err != nil {
			return
		}
		for f := range s.calls {
			f()
		}
	}()
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("enter network namespace: %w", err)
	}
	return s, nil
}

// do runs f inside. f must not wait for anything but the kernel.
func (s *space) do(f func() error) error {
	if s.calls == nil {
		return f()
	}
	out := make(chan error)
	s.calls <- func() { out <- f() }
	return <-out
}

// Close ends the thread. Nothing may be run afterwards.
func (s *space) Close() {
	if s.calls != nil {
		close(s.calls)
		<-s.done
	}
}
