// Package lb is the program plumb-lb.
package lb

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

// Main is the program until ctx ends. SIGHUP has it reload its load balancers.
func Main(ctx context.Context, args []string, _, stderr io.Writer) int {
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
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s, err := prepare(ctx, opts, log)
	if err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v\n", err)
		return exitBadCall
	}
	if err := errors.Join(s.run(ctx, hangups), s.close()); err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v\n", err)
		return exitFailed
	}
	return exitOK
}
