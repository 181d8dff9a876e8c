// Command plumb-lb is the cloud load balancer of a cluster on this host: it
// runs Kubernetes' own service controller with a provider that gives each
// Service of type LoadBalancer an HAProxy of its own: in a container on the nodes'
// Docker network, in a network namespace on their bridge, or on a loopback
// address of this host (--instances).
//
// It runs outside the cluster, as root or as a user who may use Docker. It may
// be stopped and started at any time: load balancers go on without it and are
// found again, and at SIGHUP they are reloaded. Of the cluster it writes Services (status, finalizer) and their
// Events, nothing else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/plumbline/plumbline/tools/internal/lb"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return lb.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
