// plumb-echo is the workload of Plumbline's tests: it answers GET / with the
// name of its pod. Its identity comes from POD_NAME, POD_UID and NODE_NAME.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/plumbline/plumbline/fixtures/workload/server"
)

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("plumb-echo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	port := fs.Int("port", 8080, "TCP port, on all addresses of both IP families")
	delay := fs.Duration("delay-shutdown", 0, "go on serving this long after SIGTERM")
	unready := fs.Bool("unready-on-sigterm", false, "answer /readyz with 503 after SIGTERM")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if err := check(fs.Args(), *port, *delay); err != nil {
		fmt.Fprintln(stderr, "plumb-echo:", err)
		return 2
	}

	// Before the listener, so that no SIGTERM finds the default action.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		fmt.Fprintln(stderr, "plumb-echo:", err) // names the port and why: in use, not allowed
		return 2
	}
	s := server.New(server.Config{
		Pod: getenv("POD_NAME"), UID: getenv("POD_UID"), Node: getenv("NODE_NAME"),
		Delay: *delay, UnreadyOnStop: *unready,
	}, stdout)
	if err := s.Serve(ctx, l); err != nil {
		fmt.Fprintln(stderr, "plumb-echo:", err)
		return 1
	}
	return 0
}

func check(rest []string, port int, delay time.Duration) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q: plumb-echo takes flags only", rest[0])
	case port < 0 || port > 65535:
		return fmt.Errorf("--port %d: not a TCP port (1-65535, 0 for any)", port)
	case delay < 0:
		return fmt.Errorf("--delay-shutdown %s: must not be negative", delay)
	}
	return nil
}
