// Command mutants changes what decides about packets, one small thing at a time, and says which
// of these mutants no test notices: a condition is negated, one of several is dropped, a constant
// is another one, a call, an assignment or a case is missing (operators.go). What is changed, and
// by which tests it may be noticed, cheapest first, is in targets.go. Those that do not compile
// are no mutants.
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
// It returns 0 if that is so, 1 if it is not or a survivor has no line, 2 if it could not judge.
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
	contract := flag.Bool("contract", true, "what other tests do not notice is put before a backend's contract, which takes minutes for each")
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
	if !sum.good() {
		return 1
	}
	return 0
}
