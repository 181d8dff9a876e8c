package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline/plumbline/dataplane/healthz"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/objects"
	"github.com/plumbline/plumbline/dataplane/watch"
)

// backend is what the agent needs of a dataplane.
type backend struct {
	target func(*slog.Logger) loop.Target
	clean  func() error
}

// backends are all there are.
func backends() map[string]backend {
	return map[string]backend{
		"nftables": {
			target: func(log *slog.Logger) loop.Target { return nftables.New(nftables.Config{Logger: log}) },
			clean:  func() error { return nftables.Clean(0) },
		},
	}
}

// agent runs until ctx ends; the rules stay.
func agent(ctx context.Context, opt options, client kubernetes.Interface, target loop.Target, log *slog.Logger) error {
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	var l *loop.Loop
	report := func() healthz.Report {
		s := l.Status()
		return healthz.Report{Applied: s.Applied, Waiting: s.Waiting, Ineligible: s.Ineligible}
	}
	checks := healthz.NewServices(func() bool { return report().Healthy(time.Now()) }, log)
	recorder := events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "plumb-proxy", Host: opt.node})
	l = loop.New(loop.Config{Options: opt.plan, Target: target, HealthChecks: checks, Events: serviceEvents{recorder}, Logger: log})
	w := watch.New(watch.Config{
		Client: client, Node: opt.node, Sink: l.Handle, Logger: log,
		Events: recorder,
	})
	log.Info("starting", "version", version, "node", opt.node, "backend", opt.backend,
		"terminating", opt.plan.Terminating, "no-local", opt.plan.NoLocal, "cluster-cidrs", opt.plan.ClusterCIDRs)
	run, ctx := errgroup.WithContext(ctx)
	run.Go(func() error { return l.Run(ctx) })
	run.Go(func() error { return checks.Run(ctx) })
	run.Go(func() error { return w.Run(ctx) })
	if opt.healthz != "" {
		proxy := healthz.NewProxy(report, time.Now, log)
		run.Go(func() error { return proxy.Run(ctx, bindable(ctx, opt.healthz)) })
	}
	if err := run.Wait(); err != nil {
		return err
	}
	log.Info("stopped, the rules stay")
	return nil
}

// serviceEvents writes Events about Services.
type serviceEvents struct{ record.EventRecorder }

func (e serviceEvents) Warn(service objects.Name, reason, text string) {
	about := &corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: service.Namespace, Name: service.Name}
	e.Event(about, corev1.EventTypeWarning, reason, text)
}

// bindable turns [::] into 0.0.0.0 on a host without IPv6. Both mean everything.
func bindable(ctx context.Context, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "::" {
		return addr
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp6", "[::]:0")
	if err != nil {
		return net.JoinHostPort("0.0.0.0", port)
	}
	_ = ln.Close()
	return addr
}

// The agent's limits towards the API server: it lists and watches, and writes
// now and then an Event.
const (
	clientQPS   = 20
	clientBurst = 40
)

func newClient(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	cfg.UserAgent = "plumb-proxy/" + version
	cfg.QPS, cfg.Burst = clientQPS, clientBurst
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client of %s: %w", cfg.Host, err)
	}
	return client, nil
}
