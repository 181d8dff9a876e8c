package main

import (
	"bufio"
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

// haltPeriod is how often a host stands still.
const haltPeriod = 2 * time.Second

// hog keeps every processor busy until its input ends, so that it ends with its parent:
// as anybody may, or, if there is a halt, at a priority at which nothing else runs, for
// so long in every period. It writes a line when it has begun.
func hog(in io.Reader, out io.Writer, halt string) int {
	d, err := time.ParseDuration(halt)
	begun := make(chan error)
	for cpu := range runtime.NumCPU() {
		go func() {
			if d == 0 {
				begun <- nil
				for n := 0; ; n++ {
				}
			}
			runtime.LockOSThread()
			begun <- take(cpu)
			stand(d)
		}()
	}
	for range runtime.NumCPU() {
		err = errors.Join(err, <-begun)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, "begun")
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	}
	return 0
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

// stand is busy for so long of each period, of which all threads know the beginning.
func stand(d time.Duration) {
	for {
		next := time.Now().Truncate(haltPeriod).Add(haltPeriod)
		time.Sleep(time.Until(next))
		for time.Since(next) < d {
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
	cmd.Stderr = os.Stderr
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
		return nil, fmt.Errorf("start the busy loops: %w", errors.Join(err, cmd.Wait()))
	}
	return &loops{cmd, in}, nil
}

func (l *loops) end() error {
	if err := errors.Join(l.in.Close(), l.cmd.Wait()); err != nil {
		return fmt.Errorf("end the busy loops: %w", err)
	}
	return nil
}
