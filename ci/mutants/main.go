// Command mutants changes what decides about packets, one small thing at a time, and says which
// of these mutants no test notices: a condition is negated, one of several is dropped, a constant
// is another one, a call, an assignment or a case is missing (operators.go). What is changed, and
// by which tests it may be noticed, cheapest first, is in targets.go. Those that do not compile
// are no mutants. Of the nftables and iptables backends only what makes rules of a plan is changed (targets.go); left out
// is how they are written to the kernel, held against what is there, watched and taken over (apply.go,
// hooks.go, takeover.go and others), which tests of faults and of histories are for, and what is shown of
// them (path.go, say.go), which decides about no packet.
//
// A test that fails is taken for the mutant's doing if nothing else can have been it: where tests use
// the kernel the mutant has to be noticed twice, and where they ended without naming one, as they do
// when memory or the disk is at its end, they have to pass without a mutant after it.
//
// What came of each is kept in ci/mutants.tsv, so that it goes on where it was stopped: a
// verdict holds as long as the tests that gave it are compiled from the same. Each mutant that
// nothing notices has a line in ci/survivors.tsv, by hand: "same" if no outcome of Resolve and no
// packet changes, or "open" if one does; and why. At least 95 of 100 of those that are not "same"
// are to be noticed.
//
// gremlins v0.6.0, which is maintained, has operators of its own alone, one go test of one package
// for each mutant, and keeps no verdicts.
//
//	go run ./ci/mutants [--time 1h] [--packages regexp] [--contract=false]
//
// It returns 0 if that is so of those that have a verdict, 1 if it is not or a survivor has no line, and 2
// if it could not judge: where the packages are none, where tests fail without a mutant, or where it came
// to no verdict though some are missing (the time was over, or the contract alone could tell).
package main

import (
	"context"
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	budget := flag.Duration("time", 0, "end after this `duration`, between two mutants (default: when all are judged)")
	folders := flag.String("packages", ".", "`regexp` of the folders that are mutated")
	contract := flag.Bool("contract", true, "what other tests do not notice is put before a backend's contract, which takes minutes for each; without, it stays as it was, not judged")
	flag.Parse()
	chosen, err := regexp.Compile(*folders)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mutants: --packages takes a regular expression, and nothing else is understood (%v %q)\n", err, flag.Args())
		return 2
	}
	j := &judge{targets: targets, chosen: chosen, contract: *contract, patience: 10 * time.Second}
	if *budget > 0 {
		j.until = time.Now().Add(*budget)
	}
	sum, err := j.all(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "mutants: interrupted; what was done is in %s\n", tableFile)
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		return 2
	}
	fmt.Println(sum)
	switch {
	case !sum.good():
		return 1
	case sum.idle():
		fmt.Fprintln(os.Stderr, "mutants: no verdict came of this run, and some are missing")
		return 2
	}
	return 0
}
