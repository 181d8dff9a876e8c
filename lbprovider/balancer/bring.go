package balancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// startTimeout is for a HAProxy that runs, or was started, to answer at its socket.
const startTimeout = 10 * time.Second

// bring makes the load balancer what it should be, from what there is. It is
// called with its lock held. A refusal has changed nothing.
func (b *Balancer) bring(ctx context.Context, svc *v1.Service, nodes []*v1.Node, have instance.Instance, exists bool) ([]netip.Addr, error) {
	spec, lb, err := b.plan(ctx, svc, nodes, have)
	if err != nil {
		return nil, err
	}
	b.set(func() { b.ended, b.spec = nil, spec })
	cfg := b.haproxyConfig(lb, spec)
	if exists && have.Running && b.cfg.Instances.Matches(have, spec) {
		err = b.adopt(ctx, spec, cfg)
	} else {
		err = b.replace(ctx, spec, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("load balancer of %s: %w", lb.Service, err)
	}
	b.set(func() { b.goal = lb })
	return spec.Addrs, nil
}

func (b *Balancer) haproxyConfig(lb lbplan.LB, spec instance.Spec) haproxy.Config {
	cfg := haproxy.Config{LB: lb, Profile: b.cfg.Profile, Dir: b.cfg.HAProxyDir}
	if cfg.Dir == "" {
		cfg.Dir = spec.Dir
	}
	if b.cfg.BindAddress {
		cfg.Bind = map[lbplan.Family]netip.Addr{}
		for _, a := range spec.Addrs {
			cfg.Bind[lbplan.FamilyOf(a)] = a
		}
	}
	return cfg
}

// plan decides everything that needs no running HAProxy.
func (b *Balancer) plan(ctx context.Context, svc *v1.Service, nodes []*v1.Node, have instance.Instance) (instance.Spec, lbplan.LB, error) {
	if name := instance.Name(b.cfg.Cluster, string(svc.UID)); name != b.name {
		return instance.Spec{}, lbplan.LB{}, fmt.Errorf("load balancer %s is not that of %s/%s, which is %s", b.name, svc.Namespace, svc.Name, name)
	}
	lb, err := lbplan.Build(svc, nodes)
	if err != nil {
		return instance.Spec{}, lb, err
	}
	addrs, err := b.pool.reserve(ctx, b.name, b.cfg.Cluster+"/"+lb.Service, lb, have.Addrs, published(svc))
	if err != nil {
		return instance.Spec{}, lb, err
	}
	return b.specOf(instance.Instance{Service: lb.Service, UID: string(svc.UID), Addrs: addrs}), lb, nil
}

// adopt brings a load balancer that exists to cfg. One at whose socket nobody listens (its
// directory was removed, or it crashes again and again), or somebody who is no HAProxy, is
// made anew. One that listens and says nothing for startTimeout (its host is starved) keeps
// its connections, and so does one that is too old: that is an error, and the controller
// tries again.
func (b *Balancer) adopt(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	if err := b.dir.make(); err != nil {
		return err
	}
	if err := b.cfg.Recorder.Attach(b.name, spec.Service, b.dir.path); err != nil {
		return err
	}
	now, err := b.answering(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !haproxy.IsGone(err) && !errors.Is(err, haproxy.ErrNonsense) {
		return fmt.Errorf("%s runs, but has not answered within %s: %w", b.name, startTimeout, err)
	}
	if err != nil {
		b.cfg.Log.Warn("load balancer does not answer and is made anew", "lb", spec.Service, "instance", b.name, "err", err)
		return b.replace(ctx, spec, cfg)
	}
	if err := haproxy.CheckVersion(now.Version); err != nil {
		return fmt.Errorf("%s runs: %w", b.name, err)
	}
	b.cfg.Recorder.Version(now.Version)
	var before lbplan.LB
	b.set(func() { before = b.goal })
	if before.Service == "" && haproxy.LosesFirstRow(now.Version) { // another provider's
		b.cfg.Log.Warn("the first connection since the last provider ended may be missing in the records", "lb", spec.Service, "haproxy", now.Version)
	}
	return b.converge(ctx, cfg, now)
}

// replace starts the load balancer, in place of what may be there.
func (b *Balancer) replace(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	if err := b.cfg.Instances.Stop(ctx, b.name); err != nil {
		return err
	}
	return b.start(ctx, spec, cfg)
}

// start runs a new HAProxy; all servers begin DOWN.
func (b *Balancer) start(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	if err := b.dir.make(); err != nil {
		return err
	}
	if err := errors.Join(b.dir.write(haproxy.ConfigFile, haproxy.Render(cfg)), b.dir.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{}))); err != nil {
		return err
	}
	if err := b.cfg.Recorder.Attach(b.name, spec.Service, b.dir.path); err != nil {
		return err
	}
	if err := b.cfg.Instances.Start(ctx, spec); err != nil {
		return err
	}
	b.set(func() { b.drains, b.leaving = nil, nil }) // the connections were the old one's
	now, err := b.answering(ctx)
	if err != nil {
		return fmt.Errorf("%s does not answer after its start (its output: docker logs, or *.log in %s): %w", b.name, b.dir.path, err)
	}
	if err := haproxy.CheckVersion(now.Version); err != nil {
		b.set(func() { b.ended = err }) // for revive
		return errors.Join(err, b.cfg.Instances.Stop(ctx, b.name))
	}
	b.cfg.Recorder.Version(now.Version)
	b.cfg.Recorder.Seed(b.name, spec.Service, now.Servers)
	b.cfg.Log.Info("load balancer started", "lb", spec.Service, "haproxy", now.Version, "instance", b.name, "addresses", spec.Addrs, "servers", len(now.Servers))
	return nil
}

func (b *Balancer) answering(ctx context.Context) (haproxy.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return b.client().Await(ctx, func(haproxy.Running) bool { return true })
}

// attach takes over a load balancer that an earlier process started.
func (b *Balancer) attach(ctx context.Context, i instance.Instance) error {
	if err := b.dir.make(); err != nil {
		return err
	}
	if err := b.cfg.Recorder.Attach(b.name, i.Service, b.dir.path); err != nil {
		return err
	}
	b.cfg.Instances.ComeFirst(b.name)
	b.set(func() { b.spec = b.specOf(i) })
	if now, err := b.client().Running(ctx); err == nil {
		b.cfg.Recorder.Seed(b.name, i.Service, now.Servers)
	}
	return nil
}
