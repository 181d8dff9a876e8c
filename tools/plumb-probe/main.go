//go:build linux

// plumb-probe is the eyes of the conformance suite in a cluster: servers that say
// who they are and whom they see, and an agent that makes connections on demand
// (see fixtures/probeagent). It needs no capabilities. Its identity comes from
// --name and --node, or POD_NAME and NODE_NAME.
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
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumbline/plumbline/fixtures/probeagent"
)

const usage = `usage: plumb-probe serve --name NAME [flags]

Serves identities on test ports and takes orders on a control port, until
SIGTERM. GET /healthz of the control port answers once all ports are open.
The control port opens connections for whoever reaches it: use it on test
clusters only.
`

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stderr)) }

func run(args []string, getenv func(string) string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "plumb-probe:", err)
		return 2
	}
	cfg.Log = slog.New(slog.NewJSONHandler(stderr, nil))
	if err := probeagent.Serve(ctx, cfg, func() { cfg.Log.Info("serving", "name", cfg.Name, "node", cfg.Node, "control", cfg.Control) }); err != nil {
		fmt.Fprintln(stderr, "plumb-probe:", err)
		return 1
	}
	return 0
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (cfg probeagent.Config, err error) {
	fs := flag.NewFlagSet("plumb-probe serve", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // one line says what is wrong
	fs.StringVar(&cfg.Name, "name", getenv("POD_NAME"), "what the servers call themselves; default $POD_NAME")
	fs.StringVar(&cfg.Node, "node", getenv("NODE_NAME"), "the node they say they are on; default $NODE_NAME")
	control := fs.String("control", ":39797", "control port, on all addresses of both IP families")
	tcp := fs.String("tcp", "", "TCP ports to serve, such as 8080,8090-8099")
	udp := fs.String("udp", "", "UDP ports to serve")
	sctp := fs.String("sctp", "", "SCTP ports to serve")
	fs.BoolVar(&cfg.SCTPOptional, "sctp-optional", false, "start without SCTP ports where the kernel has no SCTP")
	switch {
	case len(args) > 0 && args[0] == "serve":
		args = args[1:]
	case len(args) == 0 || !slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		return cfg, errors.New("the command must be serve; see plumb-probe --help")
	default:
		args = []string{"--help"}
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage, "\nFlags:\n")
			fs.SetOutput(stderr)
			fs.PrintDefaults()
		}
		return cfg, err
	}
	if cfg.Control, err = controlPort(*control); err != nil {
		return cfg, err
	}
	for _, l := range []struct {
		name, text string
		to         *[]uint16
	}{{"tcp", *tcp, &cfg.TCP}, {"udp", *udp, &cfg.UDP}, {"sctp", *sctp, &cfg.SCTP}} {
		if *l.to, err = ports(l.text); err != nil {
			return cfg, fmt.Errorf("--%s %s: %w", l.name, l.text, err)
		}
	}
	switch {
	case len(fs.Args()) > 0:
		return cfg, fmt.Errorf("unexpected argument %q: serve takes flags only", fs.Arg(0))
	case cfg.Name == "":
		return cfg, errors.New("--name: must not be empty (or set POD_NAME)")
	}
	return cfg, nil
}

func controlPort(s string) (uint16, error) {
	n, err := port(strings.TrimPrefix(s, ":"))
	if err != nil {
		return 0, fmt.Errorf("--control %s: %w", s, err)
	}
	return n, nil
}

// ports reads a list of ports and of ranges of them.
func ports(list string) (out []uint16, err error) {
	for part := range strings.SplitSeq(list, ",") {
		if part == "" {
			continue
		}
		low, high, isRange := strings.Cut(part, "-")
		first, err := port(low)
		last := first
		if err == nil && isRange {
			last, err = port(high)
		}
		if err != nil {
			return nil, err
		}
		if last < first {
			return nil, fmt.Errorf("range %s ends before it begins", part)
		}
		for p := int(first); p <= int(last); p++ {
			out = append(out, uint16(p))
		}
	}
	return out, nil
}

func port(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port (1-65535)", s)
	}
	return uint16(n), nil
}
