package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// hogWord makes this program the busy loops: soak hog HALT.
const hogWord = "hog"

// haltPeriod is how often a host stands still, and maxHalt for how long at most: the
// kernel leaves the others a twentieth of each second (sched_rt_runtime_us).
const (
	haltPeriod = 2 * time.Second
	maxHalt    = 900 * time.Millisecond
)

// hog keeps every processor of its own busy until its input ends, so that it ends with
// its parent: as anybody may, or, if there is a halt, before all other threads, for so
// long in every period. It writes a line when it has begun.
func hog(in io.Reader, out io.Writer, halt string) int {
	d, err := time.ParseDuration(halt)
	list, wrong := processors()
	if err = errors.Join(err, wrong); err == nil {
		runtime.GOMAXPROCS(len(list) + 2) // a turn for each, and for what waits
		err = occupy(list, d)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, "begun")
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// processors are those that this process may run on.
func processors() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("ask for this process's processors: %w", err)
	}
	for cpu := 0; len(list) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// occupy begins a loop on each of the processors, and returns when all have begun.
func occupy(list []int, halt time.Duration) error {
	begun, start := make(chan error), time.Now()
	for _, cpu := range list {
		go func() {
			if halt == 0 {
				begun <- nil
				for n := 0; ; n++ {
				}
			}
			runtime.LockOSThread()
			err := take(cpu)
			begun <- err
			if err == nil {
				stand(start, halt)
			}
		}()
	}
	var err error
	for range list {
		err = cmp.Or(<-begun, err) // one is told
	}
	return err
}

// take has this thread come before all others of a processor.
func take(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("stay on processor %d: %w", cpu, err)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0); err != nil {
		return fmt.Errorf("come first on processor %d: %w", cpu, err)
	}
	return nil
}

// stand is busy for so long of each period since start, which all threads have in
// common. The thread sleeps in the kernel, so that nobody of another priority has to wake it.
func stand(start time.Time, halt time.Duration) {
	for next := start.Add(haltPeriod); ; next = next.Add(haltPeriod) {
		for wait := time.Until(next); wait > 0; wait = time.Until(next) {
			rest := unix.NsecToTimespec(int64(wait))
			_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &rest, nil) // interrupted: it is looked again
		}
		for time.Since(next) < halt {
		}
	}
}

// loops are the busy loops, in a process of their own.
type loops struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startHog returns when they have begun.
func startHog(ctx context.Context, halt time.Duration) (*loops, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", hogWord, halt.String())
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the busy loops: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the busy loops: %w", err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("start the busy loops: %w: %s", cmp.Or(cmd.Wait(), err), bytes.TrimSpace(said.Bytes()))
	}
	return &loops{cmd, in}, nil
}

func (l *loops) end() error {
	if err := errors.Join(l.in.Close(), l.cmd.Wait()); err != nil {
		return fmt.Errorf("end the busy loops: %w", err)
	}
	return nil
}
