package lbprovider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

const (
	// startTimeout is for a HAProxy that runs, or was started, to answer at its socket.
	startTimeout = 10 * time.Second
	// reloadTimeout is for a new worker to take over.
	reloadTimeout = 15 * time.Second
	// retryFirstRound is the wait before asking again for the first checks.
	retryFirstRound = 2 * time.Second
)

// balancer brings load balancers to what their Services say. Operations on
// one load balancer exclude each other; those on different ones run in
// parallel.
type balancer struct {
	Config // const after newBalancer

	mu    sync.Mutex         // guards the fields below
	known map[string]*memory // by load balancer; never removed
}

func newBalancer(c Config) *balancer {
	return &balancer{Config: c, known: map[string]*memory{}}
}

func (b *balancer) name(svc *v1.Service) string {
	return instance.Name(b.Cluster, string(svc.UID))
}

func (b *balancer) find(ctx context.Context, name string) (instance.Instance, bool, error) {
	all, err := b.Instances.List(ctx)
	for _, i := range all {
		if i.Name == name {
			return i, true, nil
		}
	}
	return instance.Instance{}, false, err
}

func (b *balancer) dir(name string) runDir { return newRunDir(filepath.Join(b.StateDir, name)) }

// ensure makes the load balancer of svc what it should be, and returns the
// addresses to publish once every server had a check result. Other operations on
// it may run during that wait.
func (b *balancer) ensure(ctx context.Context, svc *v1.Service, nodes []*v1.Node) ([]netip.Addr, error) {
	addrs, err := b.sync(ctx, svc, nodes)
	if err == nil {
		err = b.awaitFirstRound(ctx, svc)
	}
	if err != nil {
		return nil, err
	}
	b.note(b.name(svc), func(m *memory) {
		addrs = m.serving(addrs)
		m.told = addrs
	})
	return addrs, nil
}

func (b *balancer) sync(ctx context.Context, svc *v1.Service, nodes []*v1.Node) ([]netip.Addr, error) {
	name := b.name(svc)
	defer b.lock(name)()
	have, exists, err := b.find(ctx, name)
	if err != nil {
		return nil, err
	}
	addrs, err := b.bring(ctx, svc, nodes, have, exists)
	if isRefusal(err) {
		return nil, b.withdraw(ctx, svc, name, err)
	}
	return addrs, err
}

// update gives the load balancer of svc other nodes. One that should be there
// and is not (a restart failed) is made again; one that was refused or deleted
// is not, and that is an error. It takes nothing down and publishes nothing:
// where that is needed (it moved, or the nodes have other IP families) it fails,
// and the controller calls ensure.
func (b *balancer) update(ctx context.Context, svc *v1.Service, nodes []*v1.Node) error {
	name := b.name(svc)
	defer b.lock(name)()
	have, exists, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	before, ended := b.due(svc)
	if exists {
		before = have.Addrs
	}
	if ended != nil {
		return fmt.Errorf("change the nodes of %s/%s: %w", svc.Namespace, svc.Name, ended)
	}
	if len(before) == 0 {
		return fmt.Errorf("change the nodes of %s/%s: %w", svc.Namespace, svc.Name, errNone)
	}
	after, err := b.bring(ctx, svc, nodes, have, exists)
	if err != nil {
		return err
	}
	b.note(name, func(m *memory) {
		if m.told != nil {
			before, after = m.told, m.serving(after)
		}
	})
	if !slices.Equal(before, after) {
		return fmt.Errorf("load balancer of %s/%s moved from %v to %v, which is not published yet", svc.Namespace, svc.Name, before, after)
	}
	return nil
}

// bring makes the load balancer what it should be, from what there is. It is
// called with its lock held. A refusal has changed nothing.
func (b *balancer) bring(ctx context.Context, svc *v1.Service, nodes []*v1.Node, have instance.Instance, exists bool) ([]netip.Addr, error) {
	spec, lb, err := b.plan(ctx, svc, nodes, have)
	if err != nil {
		return nil, err
	}
	b.note(spec.Name, func(m *memory) { m.ended, m.spec = nil, spec })
	cfg := b.haproxyConfig(lb, spec)
	if exists && have.Running && b.Instances.Matches(have, spec) {
		err = b.adopt(ctx, spec, cfg)
	} else {
		err = b.replace(ctx, spec, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("load balancer of %s: %w", lb.Service, err)
	}
	b.note(spec.Name, func(m *memory) { m.goal = lb })
	return spec.Addrs, nil
}

func (b *balancer) haproxyConfig(lb lbplan.LB, spec instance.Spec) haproxy.Config {
	cfg := haproxy.Config{LB: lb, Profile: b.Profile, Dir: b.HAProxyDir}
	if cfg.Dir == "" {
		cfg.Dir = spec.Dir
	}
	if b.BindAddress {
		cfg.Bind = map[lbplan.Family]netip.Addr{}
		for _, a := range spec.Addrs {
			cfg.Bind[lbplan.FamilyOf(a)] = a
		}
	}
	return cfg
}

// plan decides everything that needs no running HAProxy.
func (b *balancer) plan(ctx context.Context, svc *v1.Service, nodes []*v1.Node, have instance.Instance) (instance.Spec, lbplan.LB, error) {
	name := b.name(svc)
	lb, err := lbplan.Build(svc, nodes)
	if err != nil {
		return instance.Spec{}, lb, err
	}
	addrs, err := b.addresses(ctx, svc, lb, name, have.Addrs)
	if err != nil {
		return instance.Spec{}, lb, err
	}
	d := b.dir(name)
	return instance.Spec{Name: name, Service: lb.Service, UID: string(svc.UID), Dir: d.path, Addrs: addrs, Owner: d.owner()}, lb, nil
}

// adopt brings a load balancer that exists to cfg. One at whose socket nobody listens (its
// directory was removed, or it crashes again and again), or somebody who is no HAProxy, is
// made anew. One that listens and says nothing for startTimeout (its host is starved) keeps
// its connections, and so does one that is too old: that is an error, and the controller
// tries again.
func (b *balancer) adopt(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	if err := b.dir(spec.Name).make(); err != nil {
		return err
	}
	if err := b.Recorder.Attach(spec.Name, spec.Service, spec.Dir); err != nil {
		return err
	}
	now, err := b.answering(ctx, spec.Name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !haproxy.IsGone(err) && !errors.Is(err, haproxy.ErrNonsense) {
		return fmt.Errorf("%s runs, but has not answered within %s: %w", spec.Name, startTimeout, err)
	}
	if err != nil {
		b.Log.Warn("load balancer does not answer and is made anew", "lb", spec.Service, "instance", spec.Name, "err", err)
		return b.replace(ctx, spec, cfg)
	}
	if err := haproxy.CheckVersion(now.Version); err != nil {
		return fmt.Errorf("%s runs: %w", spec.Name, err)
	}
	b.Recorder.Version(now.Version)
	var before lbplan.LB
	b.note(spec.Name, func(m *memory) { before = m.goal })
	if before.Service == "" && haproxy.LosesFirstRow(now.Version) { // another provider's
		b.Log.Warn("the first connection since the last provider ended may be missing in the records", "lb", spec.Service, "haproxy", now.Version)
	}
	return b.converge(ctx, spec.Name, cfg, now)
}

// replace starts the load balancer, in place of what may be there.
func (b *balancer) replace(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	if err := b.Instances.Stop(ctx, spec.Name); err != nil {
		return err
	}
	return b.start(ctx, spec, cfg)
}

// start runs a new HAProxy; all servers begin DOWN.
func (b *balancer) start(ctx context.Context, spec instance.Spec, cfg haproxy.Config) error {
	d := b.dir(spec.Name)
	if err := d.make(); err != nil {
		return err
	}
	if err := errors.Join(d.write(haproxy.ConfigFile, haproxy.Render(cfg)), d.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{}))); err != nil {
		return err
	}
	if err := b.Recorder.Attach(spec.Name, spec.Service, d.path); err != nil {
		return err
	}
	if err := b.Instances.Start(ctx, spec); err != nil {
		return err
	}
	b.note(spec.Name, func(m *memory) { m.drains, m.leaving = nil, nil }) // the connections were the old one's
	now, err := b.answering(ctx, spec.Name)
	if err != nil {
		return fmt.Errorf("%s does not answer after its start (its output: docker logs, or *.log in %s): %w", spec.Name, d.path, err)
	}
	if err := haproxy.CheckVersion(now.Version); err != nil {
		b.note(spec.Name, func(m *memory) { m.ended = err }) // for revive
		return errors.Join(err, b.Instances.Stop(ctx, spec.Name))
	}
	b.Recorder.Version(now.Version)
	b.Recorder.Seed(spec.Name, spec.Service, now.Servers)
	b.Log.Info("load balancer started", "lb", spec.Service, "haproxy", now.Version, "instance", spec.Name, "addresses", spec.Addrs, "servers", len(now.Servers))
	return nil
}

func (b *balancer) answering(ctx context.Context, name string) (haproxy.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return haproxy.NewClient(b.dir(name).path).Await(ctx, func(haproxy.Running) bool { return true })
}

// awaitFirstRound goes by the nodes that the load balancer has by now, not by
// those it had when the wait began.
func (b *balancer) awaitFirstRound(ctx context.Context, svc *v1.Service) error {
	name := b.name(svc)
	wait, cancel := context.WithTimeout(ctx, b.Profile.FirstRound()+retryFirstRound)
	defer cancel()
	c := haproxy.NewClient(b.dir(name).path)
	done := func(r haproxy.Running) bool {
		var goal lbplan.LB
		var failed []string
		b.note(name, func(m *memory) { goal, failed = m.goal, m.unheard.Hear(r) })
		for _, line := range failed {
			if _, err := c.Do(wait, line); err != nil {
				b.Log.Warn("a node whose first check failed is in use until HAProxy finds it DOWN by itself", "lb", goal.Service, "error", err)
			}
		}
		return r.Expected(goal)
	}
	if _, err := c.Await(wait, done); err != nil {
		return api.NewRetryError(fmt.Sprintf("load balancer of %s/%s: its first round of health checks is not finished", svc.Namespace, svc.Name), retryFirstRound)
	}
	return nil
}

// withdraw takes down what runs for a Service that is refused, so that it is
// never half served, and returns the refusal.
func (b *balancer) withdraw(ctx context.Context, svc *v1.Service, name string, refusal error) error {
	err := b.drop(ctx, name, refusal)
	if err == nil && len(svc.Status.LoadBalancer.Ingress) > 0 {
		err = b.ClearStatus(ctx, svc)
	}
	return errors.Join(refusal, err)
}

// remove ends the load balancer called name; one that is not there is fine.
func (b *balancer) remove(ctx context.Context, name string) error {
	defer b.lock(name)()
	return b.drop(ctx, name, errDeleted)
}

// drop takes name down because of why. What was reserved stays so until that
// is done: GetLoadBalancer says so, and the controller tries again.
func (b *balancer) drop(ctx context.Context, name string, why error) error {
	b.note(name, func(m *memory) { m.ended = why })
	if err := b.Instances.Stop(ctx, name); err != nil {
		return err
	}
	b.Recorder.Detach(name)
	if err := b.dir(name).remove(); err != nil {
		return err
	}
	b.note(name, func(m *memory) { m.addrs, m.drains, m.leaving = nil, nil, nil })
	return nil
}
