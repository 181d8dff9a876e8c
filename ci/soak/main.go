// Command soak runs every test of the repository over and over beside a busy loop on
// each processor, or on a host that is halted now and then, and keeps what came of it
// in ci/soak.tsv, so that it goes on where it was stopped. Tests that depend on real time (ci/realtime.txt) are run thirty times,
// each in a process of its own; the others, and a backend's contract, whose cases need
// no more than a namespace, three times. Of a contract the parts that wait for time are
// run thirty times, and so is all of it that has failed once.
//
// A result is that of a test as it was compiled: of the Go files it is made from, here
// and in other modules (go.sum), and the testdata beside it. When one of these changes,
// the test begins anew.
//
// Packages may be run beside each other, which is harder on their tests than the busy
// loops alone. With --halt all processors are taken at once for a while, much as those of
// a host whose hypervisor has other guests (the kernel's own interrupts go on): time
// passes and no program runs. What came of that is kept apart, in ci/soak-halted.tsv.
//
//	go run ./ci/soak [--time 1h] [--packages regexp] [--rounds 30] [--beside 4] [--halt 700ms]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) == 3 && os.Args[1] == hogWord {
		return hog(os.Stdin, os.Stdout, os.Args[2])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := soak{}
	flag.DurationVar(&s.budget, "time", 0, "end after this `duration`, between two runs (default: when all is done)")
	packages := flag.String("packages", ".", "`regexp` of the folders whose tests are run")
	flag.IntVar(&s.beside, "beside", 1, "how many packages' tests are run beside each other")
	flag.IntVar(&s.rounds, "rounds", 30, "how often a test that depends on real time is run")
	flag.DurationVar(&s.halt, "halt", 0, "instead of busy loops, take the processors for this `duration` of every "+haltPeriod.String()+" (root)")
	flag.Parse()
	var err error
	if s.packages, err = regexp.Compile(*packages); err != nil || flag.NArg() > 0 || s.rounds < few || s.beside < 1 || s.halt < 0 || s.halt > maxHalt {
		fmt.Fprintf(os.Stderr, "soak: --packages takes a regular expression, --rounds at least %d, --beside at least 1, --halt at most %v, and nothing else is understood (%v %q)\n", few, maxHalt, err, flag.Args())
		return 2
	}
	h, err := startHog(ctx, s.halt)
	if err == nil {
		err = errors.Join(s.all(ctx), h.end())
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "soak: interrupted; what was done is in %s\n", s.file())
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 2
	case s.table.failed() > 0:
		return 1
	}
	return 0
}

// file is where results are kept.
func (s *soak) file() string {
	if s.halt > 0 {
		return haltedFile
	}
	return tableFile
}

// few is how often what does not depend on real time is run.
const few = 3

// soak is one run of this program.
type soak struct {
	budget   time.Duration
	packages *regexp.Regexp
	rounds   int
	beside   int
	halt     time.Duration
	table    *table
}
