// Package lb is the program plumb-lb.
package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/plumbline/plumbline/tools/internal/call"
)

// Main is the program until ctx ends. SIGHUP has it reload its load balancers.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	if err != nil {
		return call.Exit("plumb-lb", err, stdout, stderr)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opts.level()}))
	klog.SetSlogLogger(log)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s, err := prepare(ctx, opts, log)
	if err != nil {
		return call.Exit("plumb-lb", err, stdout, stderr) // something of the host is missing
	}
	if err := errors.Join(s.run(ctx, hangups), s.close()); err != nil {
		fmt.Fprintf(stderr, "plumb-lb: %v\n", err)
		return call.Failed
	}
	return call.OK
}
