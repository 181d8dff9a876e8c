// plumb-probe is the eyes of the conformance suite in a cluster: servers that say
// who they are and whom they see, and an agent that makes connections on demand
// (see fixtures/probe/remote). It needs no capabilities. Its identity comes from
// --name and --node, or POD_NAME and NODE_NAME; the key of its run from PROBE_KEY.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/plumbline/plumbline/tools/internal/probe"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return probe.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
