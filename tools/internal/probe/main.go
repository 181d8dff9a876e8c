//go:build linux

// Package probe is the program plumb-probe.
package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/tools/internal/call"
)

const usage = `plumb-probe serve --name NAME [flags]

Serves identities on test ports and takes orders on a control port, until
SIGTERM. The control port is open once all others are. It answers who shows the
certificate of $PROBE_KEY (mutual TLS; PEM of a certificate and its private key),
and connects into the ranges of --connect alone.
`

// Main is the program until ctx ends.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return run(ctx, args, os.Getenv, stdout, stderr)
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, getenv)
	if err != nil {
		return call.Exit("plumb-probe", err, stdout, stderr)
	}
	cfg.Log = slog.New(slog.NewJSONHandler(stderr, nil))
	if err := remote.Serve(ctx, cfg, func() { cfg.Log.Info("serving", "name", cfg.Name, "node", cfg.Node, "control", cfg.Control) }); err != nil {
		fmt.Fprintln(stderr, "plumb-probe:", err)
		return call.Failed
	}
	return call.OK
}

func parse(args []string, getenv func(string) string) (cfg remote.Config, err error) {
	fs := call.Flags("plumb-probe")
	fs.StringVar(&cfg.Name, "name", getenv("POD_NAME"), "what the servers call themselves; default $POD_NAME")
	fs.StringVar(&cfg.Node, "node", getenv("NODE_NAME"), "the node they say they are on; default $NODE_NAME")
	control := fs.String("control", ":39797", "control port")
	address := fs.String("address", "", "IP addresses to listen on, such as $POD_IPS; default: all of both families")
	connect := fs.String("connect", "", "CIDRs and IP addresses that it may connect to: those of Services, pods, nodes and tests; default: none")
	tcp := fs.String("tcp", "", "TCP ports to serve, such as 8080,8090-8099")
	udp := fs.String("udp", "", "UDP ports to serve")
	sctp := fs.String("sctp", "", "SCTP ports to serve")
	fs.BoolVar(&cfg.SCTPOptional, "sctp-optional", false, "start without SCTP ports where the kernel has no SCTP")
	serve := len(args) > 0 && args[0] == "serve"
	switch {
	case serve:
		args = args[1:]
	case len(args) > 0 && args[0] == "help":
		args = []string{"--help"}
	}
	if err := call.Parse(fs, usage, args); err != nil {
		return cfg, err
	}
	if !serve {
		return cfg, errors.New("the command must be serve; see plumb-probe --help")
	}
	if cfg.Control, err = controlPort(*control); err != nil {
		return cfg, err
	}
	if cfg.Addrs, err = addresses(*address); err != nil {
		return cfg, fmt.Errorf("--address %s: %w", *address, err)
	}
	fs.Visit(func(f *flag.Flag) {
		if f.Name == "address" && len(cfg.Addrs) == 0 {
			err = errors.New("--address names no address; without it all are listened on")
		}
	})
	if err != nil {
		return cfg, err
	}
	if cfg.Ranges, err = remote.ParseRanges(*connect); err != nil {
		return cfg, fmt.Errorf("--connect %s: %w", *connect, err)
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
	case getenv("PROBE_KEY") == "":
		return cfg, errors.New("$PROBE_KEY is empty: it must be the PEM of the run's certificate and private key")
	}
	if cfg.Key, err = remote.ParseKey([]byte(getenv("PROBE_KEY"))); err != nil {
		return cfg, fmt.Errorf("$PROBE_KEY: %w", err)
	}
	return cfg, nil
}

func addresses(list string) (out []netip.Addr, err error) {
	for part := range strings.SplitSeq(list, ",") {
		if part == "" {
			continue
		}
		a, err := netip.ParseAddr(part)
		if err != nil || a.Zone() != "" {
			return nil, fmt.Errorf("%q is not an IP address without zone", part)
		}
		out = append(out, a)
	}
	return out, nil
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
