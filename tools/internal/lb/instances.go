package lb

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/plumbline/plumbline/lbprovider/balancer"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// backend is what load balancers run on.
type backend struct {
	config balancer.Config // what of it depends on the kind
	on     string          // for the log
	note   string          // a remark for the log; empty if all is well
	adopt  func() error    // finds what runs; called with the state directory locked
	watch  func(context.Context, func(instance.Event))
	close  func() error
}

// newBackend checks that all is there that load balancers of this kind need.
func newBackend(ctx context.Context, o options, log *slog.Logger) (*backend, error) {
	kinds := map[string]func(context.Context, options, *slog.Logger) (*backend, error){
		kindDocker: newDocker, kindNetns: newNetns, kindHost: newHost,
	}
	return kinds[o.instances](ctx, o, log)
}

func newDocker(ctx context.Context, o options, _ *slog.Logger) (*backend, error) {
	d, err := instance.New(ctx, instance.Options{
		Cluster: o.cluster, Run: o.run, Scope: o.scope, Network: o.network, Image: o.image, Ranges: slices.Collect(maps.Values(o.ranges)),
	})
	if err != nil {
		return nil, err
	}
	return &backend{
		config: balancer.Config{
			Instances: d, HAProxyDir: instance.RunDir,
		},
		on: o.network, note: d.Note, watch: d.Watch, close: d.Close,
		adopt: func() error { return nil }, // Docker knows them
	}, nil
}

func newNetns(_ context.Context, o options, log *slog.Logger) (*backend, error) {
	n, err := instance.NewNetns(instance.NetnsOptions{
		ProcessOptions: processOptions(o, log),
		Cluster:        o.cluster, Wire: o.wire, Bridge: o.bridge, Nets: slices.Collect(maps.Values(o.nets)),
	})
	if err != nil {
		return nil, err
	}
	return &backend{
		config: balancer.Config{Instances: n},
		on:     o.wire + "/" + o.bridge, adopt: n.Adopt, watch: n.Watch, close: n.Close,
	}, nil
}

func newHost(_ context.Context, o options, log *slog.Logger) (*backend, error) {
	h, err := instance.NewHost(processOptions(o, log))
	if err != nil {
		return nil, err
	}
	return &backend{
		config: balancer.Config{Instances: h, BindAddress: true},
		on:     "loopback", adopt: h.Adopt, watch: h.Watch, close: h.Close,
	}, nil
}

func processOptions(o options, log *slog.Logger) instance.ProcessOptions {
	return instance.ProcessOptions{StateDir: o.stateDir, Program: o.program, Ranges: slices.Collect(maps.Values(o.ranges)), Log: log}
}
