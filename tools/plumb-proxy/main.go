// Command plumb-proxy is the node agent: it watches Services, EndpointSlices and
// its own Node, and keeps the node's dataplane as they ask. It needs NET_ADMIN
// in the node's network namespace, and get, list and watch of those objects.
//
// The rules stay when it exits; --cleanup removes them. --init-only does what
// needs more than NET_ADMIN (sysctls, and loading conntrack if they are not there
// before) and exits: it is for an init container. Give it the agent's
// --cluster-cidr too: IPv6 forwarding is switched on only for IPv6 pods.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/plumbline/plumbline/dataplane/nftables"
)

// version is set by the linker.
var version = "devel"

// The exit codes.
const (
	exitOK      = 0
	exitFailed  = 1
	exitBadCall = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	opt, err := parse(args, os.Getenv)
	var usage helpWanted
	if errors.As(err, &usage) {
		fmt.Fprint(stdout, string(usage))
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "plumb-proxy: %v\n", err)
		return exitBadCall
	}
	if opt.version {
		fmt.Fprintln(stdout, "plumb-proxy", version)
		return exitOK
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opt.level}))
	klog.SetSlogLogger(log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := act(ctx, opt, log); err != nil {
		fmt.Fprintf(stderr, "plumb-proxy: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func act(ctx context.Context, opt options, log *slog.Logger) error {
	b := backends()[opt.backend]
	switch {
	case opt.cleanup:
		return b.clean()
	case opt.initOnly:
		v6 := slices.ContainsFunc(opt.plan.ClusterCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
		return writeSysctls("/proc/sys", v6, func() error { return nftables.LoadConntrack(0) }, log)
	}
	client, err := newClient(opt.kubeconfig)
	if err != nil {
		return err
	}
	return agent(ctx, opt, client, b.target(log), log)
}
