// Command soak runs every test of the repository over and over beside a busy loop on
// each processor, and keeps what came of it in ci/soak.tsv, so that it goes on where it
// was stopped. Tests that depend on real time (ci/realtime.txt) are run thirty times,
// each in a process of its own; the others, and a backend's contract, whose cases need
// no more than a namespace, three times. Of a contract the parts that wait for time are
// run thirty times, and so is all of it that has failed once.
//
// A result is that of a test as it was compiled: of the Go files it is made from, here
// and in other modules (go.sum), and the testdata beside it. When one of these changes,
// the test begins anew.
//
// Packages may be run beside each other, which is harder on their tests than the busy
// loops alone.
//
//	go run ./ci/soak [--time 1h] [--packages regexp] [--rounds 30] [--beside 4]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) == 2 && os.Args[1] == hogWord {
		hog(os.Stdin)
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := soak{}
	flag.DurationVar(&s.budget, "time", 0, "end after this `duration`, between two runs (default: when all is done)")
	packages := flag.String("packages", ".", "`regexp` of the folders whose tests are run")
	flag.IntVar(&s.beside, "beside", 1, "how many packages' tests are run beside each other")
	flag.IntVar(&s.rounds, "rounds", 30, "how often a test that depends on real time is run")
	flag.Parse()
	var err error
	if s.packages, err = regexp.Compile(*packages); err != nil || flag.NArg() > 0 || s.rounds < few || s.beside < 1 {
		fmt.Fprintf(os.Stderr, "soak: --packages takes a regular expression, --rounds at least %d, --beside at least 1, and nothing else is understood (%v %q)\n", few, err, flag.Args())
		return 2
	}
	h, err := startHog(ctx)
	if err == nil {
		err = errors.Join(s.all(ctx), h.end())
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "soak: interrupted; what was done is in %s\n", tableFile)
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	case s.table.failed() > 0:
		return 1
	}
	return 0
}

// hogWord makes this program the busy loops.
const hogWord = "hog"

// hog keeps every processor busy until its input ends, so that it ends with its parent.
func hog(in io.Reader) {
	for range runtime.NumCPU() {
		go func() {
			for n := 0; ; n++ {
			}
		}()
	}
	_, _ = io.Copy(io.Discard, in)
}

// loops are the busy loops, in a process of their own, at normal priority.
type loops struct {
	cmd *exec.Cmd
	in  io.Closer
}

func startHog(ctx context.Context) (*loops, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", hogWord)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the busy loops: %w", err)
	}
	return &loops{cmd, in}, nil
}

func (l *loops) end() error {
	if err := errors.Join(l.in.Close(), l.cmd.Wait()); err != nil {
		return fmt.Errorf("end the busy loops: %w", err)
	}
	return nil
}

// few is how often what does not depend on real time is run.
const few = 3

// soak is one run of this program.
type soak struct {
	budget   time.Duration
	packages *regexp.Regexp
	rounds   int
	beside   int
	table    *table
}
