package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/localaddr"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/watch"
)

// agent is everything that runs on a node. netns is the descriptor of the network
// namespace whose dataplane it keeps, 0 for the process's own; its servers listen
// in the process's own.
type agent struct {
	opt     options
	backend backend
	netns   int
	client  kubernetes.Interface
	log     *slog.Logger
}

// run returns when ctx ends; the rules stay.
func (a *agent) run(ctx context.Context) (err error) {
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: a.client.CoreV1().Events("")})
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "plumb-proxy", Host: a.opt.node})

	a.findSCTP()
	dataplane := a.backend.start(a.opt.own, a.log)
	flows := conntrack.New(conntrack.Config{Logger: a.log, NetNS: a.netns, ResetTCP: a.opt.resetTCP})
	defer func() { err = errors.Join(err, dataplane.close(), flows.Close()) }()

	var l *loop.Loop
	status := func() loop.Status { return l.Status() }
	checks := healthz.NewServices(func() bool { return report(status()).Healthy(time.Now()) }, a.log)
	m := newMetrics(status, func() uint64 { return flows.Stats().Deleted }, dataplane.counts)
	cfg := loop.Config{
		Options: a.opt.plan, Target: dataplane, HealthChecks: a.opt.broken.checks(checks), Events: serviceEvents{recorder},
		Observe: m.observe, Logger: a.log,
	}
	if a.backend.flows {
		cfg.Flows = flows
	}
	l = loop.New(cfg)
	a.log.Info("starting", "version", version, "node", a.opt.node, "backend", a.opt.backend, "sctp", a.opt.plan.SCTP,
		"terminating", a.opt.plan.Terminating, "no-local", a.opt.plan.NoLocal, "cluster-cidrs", a.opt.plan.ClusterCIDRs)
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return l.Run(ctx) })
	run.Go(func() error { return checks.Run(ctx) })
	a.feed(ctx, run, recorder, l)
	a.lookout(ctx, run, dataplane, l, m)
	if a.opt.healthz != "" {
		proxy := healthz.NewProxy(func() healthz.Report { return report(status()) }, time.Now, a.log)
		run.Go(func() error { return proxy.Run(ctx, bindable(ctx, a.opt.healthz)) })
	}
	if err := run.Wait(); err != nil {
		return err
	}
	a.log.Info("stopped, the rules stay")
	return nil
}

// feed runs what the Loop hears from.
func (a *agent) feed(ctx context.Context, run *errgroup.Group, recorder record.EventRecorder, l *loop.Loop) {
	sources := &feed{sink: l.Handle}
	w := watch.New(watch.Config{Client: a.client, Node: a.opt.node, Sink: sources.source(), Logger: a.log, Events: recorder})
	if len(a.opt.plan.NodePorts.Within) > 0 {
		local := sources.source()
		run.Go(func() error {
			cfg := localaddr.Config{Logger: a.log, NetNS: a.netns}
			return localaddr.Run(ctx, cfg, func(as objects.LocalAddrs) { local([]objects.Change{{Local: &as}}) })
		})
	}
	run.Go(func() error { return w.Run(ctx) })
}

// lookout runs what sees that the kernel has changed, and what others may ask.
func (a *agent) lookout(ctx context.Context, run *errgroup.Group, r running, l *loop.Loop, m *metrics) {
	if r.watch != nil {
		repair := newRepair(l.Lost, a.log)
		run.Go(func() error {
			return r.watch(ctx, func() {
				m.lost.Inc()
				repair.ask()
			})
		})
		run.Go(func() error { return repair.run(ctx) })
	}
	if a.opt.metrics != "" {
		i := &inspector{mode: a.opt.backend, loop: l, path: r.path, numbers: &numbers{}, log: a.log}
		run.Go(func() error { return serve(ctx, bindable(ctx, a.opt.metrics), i.handler(m.handler()), a.log) })
	}
}

// findSCTP asks the kernel whether SCTP ports can be served. All others are served
// without an answer too.
func (a *agent) findSCTP() {
	a.opt.plan.SCTP = false
	if a.backend.sctp == nil {
		return
	}
	has, err := a.backend.sctp()
	if err != nil {
		a.log.Warn("SCTP ports are not served: it cannot be found out whether the kernel has SCTP", "err", err)
		return
	}
	a.opt.plan.SCTP = has
}

func report(s loop.Status) healthz.Report {
	return healthz.Report{Applied: s.Applied, Waiting: s.Waiting, Ineligible: s.Ineligible}
}
