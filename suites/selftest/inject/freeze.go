package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// frozen are the processes of a namespace.
type frozen []int

func processes(namespace string) (frozen, error) {
	want, err := os.Stat(path(namespace))
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	var all frozen
	for _, l := range links {
		have, err := os.Stat(l)
		if err != nil || !os.SameFile(want, have) { // it has ended meanwhile, or is elsewhere
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(l))))
		if err != nil {
			return nil, err
		}
		all = append(all, pid)
	}
	if len(all) == 0 {
		return nil, errors.New("no process is in it")
	}
	return all, nil
}

func (f frozen) on() error  { return f.signal(unix.SIGSTOP) }
func (f frozen) off() error { return f.signal(unix.SIGCONT) }

func (f frozen) signal(s unix.Signal) error {
	var all []error
	for _, pid := range f {
		if err := unix.Kill(pid, s); err != nil {
			all = append(all, fmt.Errorf("signal %d to process %d: %w", s, pid, err))
		}
	}
	return errors.Join(all...)
}

func (frozen) touched() ([]string, uint64, error) { return nil, 0, nil }

// close lets them go on, whatever happened before.
func (f frozen) close() error { return f.off() }
