// Command plumb-proxy is the node agent: it watches Services, EndpointSlices and
// its own Node, and keeps the node's dataplane as they ask. Of the API it needs
// get, list and watch of those objects and of ServiceCIDRs, and create and patch
// of Events; of the node the capability NET_ADMIN in its network namespace, for
// the legacy flavour of iptables also NET_RAW, for userspace NET_BIND_SERVICE.
//
// `plumb-proxy show` asks the agent on the node what it does: see show.go.
// `plumb-proxy look` says who proxies Services on the node: see look.go.
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
	"runtime"
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(args) > 0 && args[0] == "show" {
		q, err := parseShow(args[1:])
		if err != nil {
			return badCall(err, stdout, stderr)
		}
		return exit(q.ask(ctx, stdout), stderr)
	}
	if len(args) > 0 && args[0] == "look" {
		l, err := parseLook(args[1:])
		if err != nil {
			return badCall(err, stdout, stderr)
		}
		return l.run(ctx, stdout, stderr)
	}
	opt, err := parse(args, os.Getenv)
	if err != nil {
		return badCall(err, stdout, stderr)
	}
	if opt.version {
		fmt.Fprintln(stdout, "plumb-proxy", version)
		return exitOK
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opt.level}))
	klog.SetSlogLogger(log)
	return exit(act(ctx, opt, log), stderr)
}

// badCall is for errors of the command line, of which one asks for help.
func badCall(err error, stdout, stderr io.Writer) int {
	var usage helpWanted
	if errors.As(err, &usage) {
		fmt.Fprint(stdout, string(usage))
		return exitOK
	}
	fmt.Fprintf(stderr, "plumb-proxy: %v\n", err)
	return exitBadCall
}

func exit(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintf(stderr, "plumb-proxy: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func act(ctx context.Context, opt options, log *slog.Logger) error {
	if opt.initOnly {
		v6 := slices.ContainsFunc(opt.plan.ClusterCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
		w := writer{root: "/proc/sys", load: func() error { return nftables.LoadConntrack(0) }, log: log}
		return w.write(append(nodeSysctls(v6), opt.limits.sysctls(runtime.NumCPU())...))
	}
	b := opt.broken.backend(backends(0)[opt.backend])
	if opt.cleanup {
		if err := demand(opt.backend, b.needs(opt.own)); err != nil {
			return err
		}
		return b.clean()
	}
	client, err := newClient(opt.kubeconfig)
	if err != nil {
		return err
	}
	if err := demand(opt.backend, b.needs(opt.own)); err != nil {
		return err
	}
	a := opt.broken.agent(&agent{opt: opt, backend: b, client: client, log: log})
	return a.run(ctx)
}
