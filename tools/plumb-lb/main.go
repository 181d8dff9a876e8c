// Command plumb-lb is the cloud load balancer of a cluster on this host: it
// runs Kubernetes' own service controller with a provider that gives each
// Service of type LoadBalancer an HAProxy of its own: in a container on the nodes'
// Docker network, in a network namespace on their bridge, or on a loopback
// address of this host (--instances).
//
// It runs outside the cluster, as root or as a user who may use Docker. It may
// be stopped and started at any time: load balancers go on without it and are
// found again. Of the cluster it writes Services (status, finalizer) and their
// Events, nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

const (
	exitOK      = 0
	exitFailed  = 1
	exitBadCall = 2 // nothing was done: flags, or something of the host is missing
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	opts, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		usage(stderr)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v (plumb-lb -h lists the flags)\n", err)
		return exitBadCall
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opts.level()}))
	klog.SetSlogLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	s, err := prepare(ctx, opts, log)
	if err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v\n", err)
		return exitBadCall
	}
	if err := errors.Join(s.run(ctx), s.close()); err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v\n", err)
		return exitFailed
	}
	return exitOK
}
