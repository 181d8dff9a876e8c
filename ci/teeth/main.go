// Command teeth judges the conformance suite in a lab with dataplanes that are broken on
// purpose (suites/conformance/teeth). bin/mutant/plumb-mutant has the mutations.
//
//	go run ./ci/teeth [--mutations regexp] [--table file] [--ip-family ipv4|dual] [--whole]
//
// It returns 0 if each was noticed by all that declare it, 1 if one was not, 2 if it could not judge.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/plumbline/plumbline/suites/conformance"
	"github.com/plumbline/plumbline/suites/conformance/teeth"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := teeth.Options{Suite: conformance.New()}
	o.Suite.Stage.Cluster, o.Suite.Seed = "lab", 1
	flag.StringVar(&o.Mutations, "mutations", ".*", "judge those of teeth.yaml that this regular `expression` matches")
	flag.StringVar(&o.Table, "table", "", "`file` with the table of mutations and what caught them; rows of those judged are written anew, and those that stand are not judged")
	flag.BoolVar(&o.Whole, "whole", false, "ask for all behaviours, not only for those declared, also where the row stands")
	flag.StringVar(&o.Suite.Stage.IPFamily, "ip-family", "ipv4", "of the lab: ipv4, or dual, with the mutations that ipv4 alone cannot show")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "teeth: unexpected argument %q\n", flag.Arg(0))
		return 2
	}
	noticed, err := teeth.Judge(ctx, o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "teeth:", err)
		return 2
	case !noticed:
		return 1
	}
	return 0
}
