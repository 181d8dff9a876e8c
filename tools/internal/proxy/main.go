// Package proxy is the program plumb-proxy: its command line, and what it does but for
// being the agent.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"k8s.io/klog/v2"

	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/ebpf"
	"github.com/plumbline/plumbline/dataplane/kubeproxy"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// Alter changes what the agent is made of.
type Alter func(context.Context, *agent.Config)

// Main is the program until ctx ends, as an agent is made or as alter, if there is one,
// changes it.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, alter Alter) int {
	if len(args) > 0 && args[0] == "show" {
		q, err := parseShow(args[1:])
		if err != nil {
			return call.Exit("plumb-proxy", err, stdout, stderr)
		}
		return exit(q.ask(ctx, stdout), stderr)
	}
	if len(args) > 0 && args[0] == "look" {
		l, err := parseLook(args[1:])
		if err != nil {
			return call.Exit("plumb-proxy", err, stdout, stderr)
		}
		return l.run(ctx, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "damage" {
		b, err := parseDamage(args[1:])
		if err != nil {
			return call.Exit("plumb-proxy", err, stdout, stderr)
		}
		return exit(b.Damage(), stderr)
	}
	opt, err := parse(args, os.Getenv)
	if err != nil {
		return call.Exit("plumb-proxy", err, stdout, stderr)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: opt.level}))
	klog.SetSlogLogger(log)
	return exit(act(ctx, opt, log, alter), stderr)
}

func exit(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintf(stderr, "plumb-proxy: %v\n", err)
		return call.Failed
	}
	return call.OK
}

func act(ctx context.Context, opt options, log *slog.Logger, alter Alter) error {
	if opt.initOnly {
		return prepare(opt, log)
	}
	cfg := opt.config(log)
	if !opt.cleanup {
		var err error
		if cfg.Client, err = newClient(opt.kubeconfig); err != nil {
			return err
		}
		if err := opt.own.atSockets(&cfg, ebpf.SocketsTaken); err != nil {
			return err
		}
	}
	if alter != nil {
		alter(ctx, &cfg)
	}
	if err := node.Demand(opt.backend, cfg.Backend.Needs(ctx, cfg.Own)); err != nil {
		return err
	}
	if opt.takeOver != "" {
		if who, err := kubeproxy.Running(ctx); err != nil || who != "" {
			return mayNotTakeOver(who, err)
		}
	}
	if opt.cleanup {
		return cleanAll(cfg.Backend, cfg.Others, log)
	}
	if opt.own.ownTables {
		if err := nftables.Ownable(0); err != nil {
			return fmt.Errorf("--nftables-own-tables: %w", err)
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return agent.New(cfg).Run(ctx)
}

// prepare does what takes more rights than the agent has.
func prepare(opt options, log *slog.Logger) error {
	w := node.Writer{Root: "/proc/sys", Load: func() error { return nftables.LoadConntrack(0) }, Log: log}
	if err := w.Write(append(node.Sysctls(agent.IPv6(opt.plan)), opt.limits.Sysctls(runtime.NumCPU())...)); err != nil {
		return err
	}
	if also := backend.All(0)[opt.backend].Prepare; also != nil {
		return also()
	}
	return nil
}

// gcPercent is how much garbage there may be beside what is alive. With Go's default of 100 the
// peak memory at 10 000 and 44 000 Services of ten endpoints is 114 and 357 MB, with 50 it is 94
// and 280. That costs 8 and 4 % of a cold start, 18 and 11 % of a warm one (medians of three).
const gcPercent = 50

func mayNotTakeOver(who string, err error) error {
	if err != nil {
		return fmt.Errorf("--take-over=%s: whether one runs cannot be found out: %w", kubeproxy.Name, err)
	}
	return fmt.Errorf("--take-over=%s: it runs on this node (%s) and would put back what is taken away; end it first, such as by kubectl -n kube-system delete daemonset kube-proxy", kubeproxy.Name, who)
}

// cleanAll removes what a backend left on the node, and what the others did. What is to stay is said.
func cleanAll(own backend.Backend, others map[string]backend.Backend, log *slog.Logger) error {
	clean := func(name string, b backend.Backend) error {
		stays, err := new(backend.Stays), b.Clean()
		if errors.As(err, &stays) && !stays.Undone {
			log.Warn("another proxy's rules stay on this node", "proxy", name, "what", stays)
			return nil
		}
		return err
	}
	errs := []error{clean("own", own)}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if others[name].Clean == nil {
			continue
		}
		left, err := others[name].Left()
		if len(left) > 0 {
			if failed := clean(name, others[name]); failed != nil {
				err = failed // it has met what Left did
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("clean up after %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
