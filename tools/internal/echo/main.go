// Package echo is the program plumb-echo.
package echo

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/plumbline/plumbline/fixtures/workload/server"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// Main is the program until ctx ends, which SIGTERM is to do.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return run(ctx, args, os.Getenv, stdout, stderr)
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	fs := call.Flags("plumb-echo")
	port := fs.Int("port", 8080, "TCP port, on all addresses of both IP families")
	delay := fs.Duration("delay-shutdown", 0, "go on serving this long after SIGTERM")
	unready := fs.Bool("unready-on-sigterm", false, "answer /readyz with 503 after SIGTERM")
	err := call.Parse(fs, "plumb-echo [flags]", args)
	if err == nil {
		err = check(fs.Args(), *port, *delay)
	}
	if err != nil {
		return call.Exit("plumb-echo", err, stdout, stderr)
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", *port))
	if err != nil {
		return call.Exit("plumb-echo", err, stdout, stderr) // names the port and why: in use, not allowed
	}
	s := server.New(server.Config{
		Pod: getenv("POD_NAME"), UID: getenv("POD_UID"), Node: getenv("NODE_NAME"),
		Delay: *delay, UnreadyOnStop: *unready,
	}, stdout)
	if err := s.Serve(ctx, l); err != nil {
		fmt.Fprintln(stderr, "plumb-echo:", err)
		return call.Failed
	}
	return call.OK
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
