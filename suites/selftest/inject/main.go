// Inject puts trouble of a known kind between two known moments into network namespaces, so
// that what a run says of it can be held against what really was. It shares no code with what
// measures or judges; its log is read by tests alone.
//
//	inject -namespace=plumb-x-node-1 -hop=node -kind=drop -port=30080 -for=200ms -log=FILE
//
// Kinds: drop, reject (RST to a SYN), icmp (port unreachable to it), reset (RST to data),
// drop-data, thin (half of all SYNs and data are dropped), delay (SYNs and data wait for 300 ms), freeze
// (the processes of the namespace stand still). All meet TCP packets to -port as they arrive in the namespace, before anything else
// there; -source narrows them to one sender.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() { os.Exit(run()) }

func run() int {
	var o options
	names := flag.String("namespace", "", "names below /run/netns, separated by commas")
	source := flag.String("source", "", "IP address of the only sender that meets it; empty: all")
	log := flag.String("log", "", "JSONL file to which what was done is appended")
	flag.StringVar(&o.Hop, "hop", "", "noted in the log")
	flag.StringVar(&o.Kind, "kind", "drop", strings.Join(kinds(), ", "))
	flag.DurationVar(&o.For, "for", 200*time.Millisecond, "how long")
	flag.UintVar(&o.Port, "port", 0, "destination port")
	flag.UintVar(&o.FromPort, "from-port", 0, "of source ports these and above alone")
	flag.Parse()
	o.Namespaces = strings.Split(*names, ",")
	if *source != "" {
		addr, err := netip.ParseAddr(*source)
		if err != nil {
			fmt.Fprintln(os.Stderr, "inject: -source:", err)
			return 2
		}
		o.Source = addr
	}
	if err := o.check(*names, *log); err != nil {
		fmt.Fprintln(os.Stderr, "inject:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	done, err := o.inject(ctx)
	if err == nil {
		err = done.append(*log)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inject:", err)
		return 1
	}
	return 0
}

// options say what to do.
type options struct {
	Namespaces []string      `json:"namespaces"`
	Hop        string        `json:"hop"`
	Kind       string        `json:"kind"`
	Port       uint          `json:"port"`
	FromPort   uint          `json:"fromPort,omitempty"`
	Source     netip.Addr    `json:"source,omitzero"`
	For        time.Duration `json:"for"`
}

func (o options) check(names, log string) error {
	switch {
	case names == "" || log == "":
		return errors.New("-namespace and -log are wanted")
	case !known(o.Kind):
		return fmt.Errorf("unknown -kind %q; known: %s", o.Kind, strings.Join(kinds(), ", "))
	case o.For <= 0 || o.For > time.Minute:
		return fmt.Errorf("-for %s: above 0 and at most 1m", o.For)
	case o.FromPort > 65535:
		return fmt.Errorf("-from-port %d: at most 65535", o.FromPort)
	case o.Kind != freeze && (o.Port == 0 || o.Port > 65535):
		return fmt.Errorf("-port %d: 1 to 65535", o.Port)
	}
	for _, n := range o.Namespaces {
		if _, err := os.Stat(path(n)); err != nil {
			return fmt.Errorf("namespace %s: %w", n, err)
		}
	}
	return nil
}

func path(namespace string) string { return filepath.Join("/run/netns", namespace) }

// done is a line of the log. Stamps are CLOCK_MONOTONIC, ns: each change took effect between
// two of them.
type done struct {
	options
	OnAfter   int64    `json:"onAfter"`
	OnBefore  int64    `json:"onBefore"`
	OffAfter  int64    `json:"offAfter"`
	OffBefore int64    `json:"offBefore"`
	Touched   []string `json:"touched"` // senders of SYNs and data that met the rule, addr:port, each once
	Packets   uint64   `json:"packets"` // that they sent: of refused connections one each, though a port be used again
}

func (d done) append(file string) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}
