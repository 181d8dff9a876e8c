// Package agent is the node agent: it watches Services, EndpointSlices and its own Node,
// and keeps the node's dataplane as they ask.
//
//	watch -> feed -> loop -> Backend's target    repair: what others changed comes back
//	                     \-> healthz, metrics    what the agent is asked
//
// Package backend has the dataplanes there are. Of the API an agent needs get, list and watch of
// those objects and of ServiceCIDRs, and create and patch of Events; of the node what
// Backend.Needs says.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/localaddr"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/watch"
)

// Config is what an agent is made of.
type Config struct {
	Node    string // its own
	Version string // said in the log
	Mode    string // name of the backend
	Backend backend.Backend
	Own     backend.Options
	// Others are the backends whose leavings are taken away once this one's rules are in,
	// by name; its own is none of them. Those of one without Clean are named and stay.
	Others map[string]backend.Backend
	Plan   plan.Options
	Client kubernetes.Interface
	// Healthz is where /healthz and /livez are served, Metrics where /metrics and /proxyMode;
	// Debug is the unix socket of what `plumb-proxy show` asks. Empty: nowhere.
	Healthz, Metrics, Debug string
	// ResetTCP: connections to endpoints that have been gone for so long; 0: never.
	ResetTCP time.Duration
	// NetNS is the descriptor of the network namespace whose dataplane it keeps, 0 for
	// the process's own; its servers listen in the process's own.
	NetNS int
	// HealthChecks are what healthCheckNodePorts are asked of, made of the agent's own;
	// nil: these.
	HealthChecks func(*healthz.Services) loop.HealthChecks
	Logger       *slog.Logger
}

// Agent is everything that runs on a node.
type Agent struct{ cfg Config }

// New makes an agent; nothing happens before Run.
func New(cfg Config) *Agent { return &Agent{cfg} }

// Run returns when ctx ends; the rules stay.
func (a *Agent) Run(ctx context.Context) (err error) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	told := newEvents(broadcaster, a.cfg.Client, a.cfg.Node)

	a.findSCTP()
	next := newSuccessor(&a.cfg, told.WarnNode)
	own := a.cfg.Own
	own.Others = next.find
	dataplane := a.cfg.Backend.Start(own, a.cfg.Logger)
	flows := conntrack.New(conntrack.Config{Logger: a.cfg.Logger, NetNS: a.cfg.NetNS, ResetTCP: a.cfg.ResetTCP})
	defer func() { err = errors.Join(err, dataplane.Close()) }()

	var l *loop.Loop
	status := func() loop.Status { return l.Status() }
	checks := healthz.NewServices(func() bool { return report(status()).Healthy(time.Now()) }, a.cfg.Logger)
	m := newMetrics(a.cfg.Mode, status, flows.Stats, dataplane)
	cfg := loop.Config{
		Options: a.cfg.Plan, Target: inTurn{dataplane, next}, HealthChecks: checks, Events: told,
		Observe: m.observe, Logger: a.cfg.Logger,
	}
	if a.cfg.HealthChecks != nil {
		cfg.HealthChecks = a.cfg.HealthChecks(checks)
	}
	run, ctx := errgroup.WithContext(ctx)
	if a.cfg.Backend.Keeps == backend.Conntrack {
		cfg.Flows = flows
		run.Go(func() error { return flows.Run(ctx) })
	}
	for _, look := range a.looks(dataplane) {
		looking := amiss{Look: look, tell: told.WarnNode, log: a.cfg.Logger}
		run.Go(func() error { return looking.run(ctx) })
	}
	a.sayNoNode(told.WarnNode)
	l = loop.New(cfg)
	next.again = l.Lost
	defer next.stop()
	a.cfg.Logger.Info("starting", "version", a.cfg.Version, "node", a.cfg.Node, "backend", a.cfg.Mode, "sctp", a.cfg.Plan.SCTP,
		"terminating", a.cfg.Plan.Terminating, "no-local", a.cfg.Plan.NoLocal, "cluster-cidrs", a.cfg.Plan.ClusterCIDRs, "detect-local", a.cfg.Plan.Local, "link", a.cfg.Plan.LocalLink)
	run.Go(func() error { return l.Run(ctx) })
	run.Go(func() error { return checks.Run(ctx) })
	a.feed(ctx, run, told.everybodys, l)
	a.lookout(ctx, run, dataplane, l, m)
	if a.cfg.Healthz != "" {
		proxy := healthz.NewProxy(func() healthz.Report { return reportWith(status(), dataplane.WithoutIPv6) }, time.Now, a.cfg.Logger)
		proxy.Answered = m.upstream.answered
		run.Go(func() error { return proxy.Run(ctx, bindable(ctx, a.cfg.Healthz)) })
	}
	if err := run.Wait(); err != nil {
		return err
	}
	a.cfg.Logger.Info("stopped, the rules stay")
	return nil
}

// looks are what is to be told of in Events of the Node. Who takes connections in needs no
// forwarding.
func (a *Agent) looks(dataplane backend.Running) []backend.Look {
	out := dataplane.Looks
	if a.cfg.Backend.Keeps != backend.Process {
		out = append(out, sysctls(&a.cfg))
	}
	if a.cfg.Backend.Forwarded {
		out = append(out, forwarding(&a.cfg))
	}
	if a.cfg.Backend.Sockets && a.cfg.Own.Cgroup != "" {
		out = append(out, atSockets(a.cfg.Own.Cgroup))
	}
	return out
}

// reasonNoNode is that of the Event about whom the backend does not serve.
const reasonNoNode = "NodeNotServed"

// sayNoNode tells once whom the backend does not serve, if there is anybody.
func (a *Agent) sayNoNode(tell func(reason, text string)) {
	why := a.cfg.Backend.NoNode
	if why == "" {
		return
	}
	a.cfg.Logger.Warn("connections of the node's own network namespace to Services are not served", "backend", a.cfg.Mode, "why", why)
	tell(reasonNoNode, fmt.Sprintf("backend %s does not serve connections of the node's own network namespace to Services: %s", a.cfg.Mode, why))
}

// feed runs what the Loop hears from.
func (a *Agent) feed(ctx context.Context, run *errgroup.Group, recorder record.EventRecorder, l *loop.Loop) {
	sources := &feed{sink: l.Handle}
	w := watch.New(watch.Config{Client: a.cfg.Client, Node: a.cfg.Node, Sink: sources.source(), Logger: a.cfg.Logger, Events: recorder})
	if len(a.cfg.Plan.NodePorts.Within) > 0 {
		local := sources.source()
		run.Go(func() error {
			cfg := localaddr.Config{Logger: a.cfg.Logger, NetNS: a.cfg.NetNS}
			return localaddr.Run(ctx, cfg, func(as objects.LocalAddrs) { local([]objects.Change{{Local: &as}}) })
		})
	}
	run.Go(func() error { return w.Run(ctx) })
}

// lookout runs what sees that the kernel has changed, and what others may ask.
func (a *Agent) lookout(ctx context.Context, run *errgroup.Group, r backend.Running, l *loop.Loop, m *metrics) {
	if r.Watch != nil {
		repair := newRepair(l.Lost, a.cfg.Logger)
		run.Go(func() error {
			return r.Watch(ctx, func() {
				m.lost.Inc()
				repair.ask()
			})
		})
		run.Go(func() error { return repair.run(ctx) })
	}
	if a.cfg.Metrics != "" {
		s := server{"metrics", "tcp", bindable(ctx, a.cfg.Metrics), metricsHandler(a.cfg.Mode, m.handler(a.cfg.Logger)), a.cfg.Logger}
		run.Go(func() error { return s.run(ctx) })
	}
	if a.cfg.Debug != "" {
		i := &Inspector{Mode: a.cfg.Mode, Loop: l, Path: r.Path, Live: r.Live, Logger: a.cfg.Logger}
		run.Go(func() error { return i.Serve(ctx, a.cfg.Debug) })
	}
}

// findSCTP asks the kernel whether SCTP ports can be served. All others are served
// without an answer too.
func (a *Agent) findSCTP() {
	a.cfg.Plan.SCTP = false
	if a.cfg.Backend.SCTP == nil {
		return
	}
	has, err := a.cfg.Backend.SCTP()
	if err != nil {
		a.cfg.Logger.Warn("SCTP ports are not served: it cannot be found out whether the kernel has SCTP", "err", err)
		return
	}
	a.cfg.Plan.SCTP = has
}

func report(s loop.Status) healthz.Report {
	return healthz.Report{Applied: s.Applied, Waiting: s.Waiting, Ineligible: s.Ineligible}
}

// reportWith says as well whether the node serves IPv6; without a backend's word it does.
func reportWith(s loop.Status, withoutIPv6 func() bool) healthz.Report {
	r := report(s)
	r.WithoutIPv6 = withoutIPv6 != nil && withoutIPv6()
	return r
}
