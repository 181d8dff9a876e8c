//go:build mutations

// Command plumb-mutant is plumb-proxy with one thing broken on purpose, which
// --mutation=NAME names: the conformance suite is to notice it (make teeth).
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/plumbline/plumbline/suites/conformance/mutant"
	"github.com/plumbline/plumbline/tools/internal/proxy"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var alter proxy.Alter
	var others []string
	for _, a := range os.Args[1:] {
		name, ok := strings.CutPrefix(a, "--mutation=")
		if !ok {
			others = append(others, a)
			continue
		}
		var err error
		if alter, err = mutant.Of(name); err != nil {
			fmt.Fprintln(os.Stderr, "plumb-mutant:", err)
			return 2
		}
	}
	return proxy.Main(ctx, others, os.Stdout, os.Stderr, alter)
}
