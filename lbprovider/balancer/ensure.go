package balancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// Ensure makes the load balancer what it should be for svc, and returns the
// addresses to publish once every server had a check result. Other operations on
// it may run during that wait. The error is a *lbplan.Refusal if svc cannot be served.
func (b *Balancer) Ensure(ctx context.Context, svc *v1.Service, nodes []*v1.Node) ([]netip.Addr, error) {
	addrs, err := b.sync(ctx, svc, nodes)
	if err == nil {
		err = b.awaitFirstRound(ctx, svc)
	}
	if err != nil {
		return nil, err
	}
	b.set(func() {
		addrs = b.serving(addrs)
		b.told = addrs
	})
	return addrs, nil
}

func (b *Balancer) sync(ctx context.Context, svc *v1.Service, nodes []*v1.Node) ([]netip.Addr, error) {
	defer b.lock()()
	have, exists, err := b.find(ctx)
	if err != nil {
		return nil, err
	}
	addrs, err := b.bring(ctx, svc, nodes, have, exists)
	if isRefusal(err) {
		return nil, b.withdraw(ctx, svc, err)
	}
	return addrs, err
}

// retryFirstRound is the wait before asking again for the first checks.
const retryFirstRound = 2 * time.Second

// awaitFirstRound goes by the nodes that the load balancer has by now, not by
// those it had when the wait began.
func (b *Balancer) awaitFirstRound(ctx context.Context, svc *v1.Service) error {
	wait, cancel := context.WithTimeout(ctx, b.cfg.Profile.FirstRound()+retryFirstRound)
	defer cancel()
	c := b.client()
	done := func(r haproxy.Running) bool {
		var goal lbplan.LB
		var failed []string
		b.set(func() { goal, failed = b.goal, b.unheard.Hear(r) })
		for _, line := range failed {
			if _, err := c.Do(wait, line); err != nil {
				b.cfg.Log.Warn("a node whose first check failed is in use until HAProxy finds it DOWN by itself", "lb", goal.Service, "error", err)
			}
		}
		return r.Expected(goal)
	}
	if _, err := c.Await(wait, done); err != nil {
		return api.NewRetryError(fmt.Sprintf("load balancer of %s/%s: its first round of health checks is not finished", svc.Namespace, svc.Name), retryFirstRound)
	}
	return nil
}

// Update gives the load balancer other nodes. One that should be there
// and is not (a restart failed) is made again; one that was refused or deleted
// is not, and that is an error. It takes nothing down and publishes nothing:
// where that is needed (it moved, or the nodes have other IP families) it fails,
// and the controller calls Ensure.
func (b *Balancer) Update(ctx context.Context, svc *v1.Service, nodes []*v1.Node) error {
	defer b.lock()()
	have, exists, err := b.find(ctx)
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
	b.set(func() {
		if b.told != nil {
			before, after = b.told, b.serving(after)
		}
	})
	if !slices.Equal(before, after) {
		return fmt.Errorf("load balancer of %s/%s moved from %v to %v, which is not published yet", svc.Namespace, svc.Name, before, after)
	}
	return nil
}

// Reload starts a worker with the configuration that it has already, as a change that needs one
// would. Without a load balancer that serves there is nothing to do.
func (b *Balancer) Reload(ctx context.Context) error {
	defer b.lock()()
	var spec instance.Spec
	var goal lbplan.LB
	var ended error
	b.set(func() { spec, goal, ended = b.spec, b.goal, b.ended })
	if ended != nil || goal.Service == "" {
		return nil
	}
	cfg := b.haproxyConfig(goal, spec)
	now, err := b.answering(ctx)
	if err == nil && !haproxy.Change(now, cfg).Done() {
		err = errors.New("it is about to get another configuration")
	}
	if err == nil {
		err = b.reload(ctx, cfg, now)
	}
	if err != nil {
		return fmt.Errorf("reload the load balancer of %s: %w", goal.Service, err)
	}
	return nil
}

// Addresses are those it has, and whether there is a load balancer. One whose HAProxy is
// missing exists as long as its address is kept: it is to be made again, or to be cleaned up.
func (b *Balancer) Addresses(ctx context.Context, svc *v1.Service) (addrs []netip.Addr, exists bool, err error) {
	i, ok, err := b.find(ctx)
	if err != nil || ok {
		return i.Addrs, ok, err
	}
	addrs, _ = b.due(svc)
	return addrs, len(addrs) > 0, nil
}

// due returns the addresses that the load balancer should be at while no HAProxy tells;
// none if it should not exist. svc may be older than what is known: the service controller
// keeps the object of its last sync.
func (b *Balancer) due(svc *v1.Service) (addrs []netip.Addr, ended error) {
	addrs = b.pool.of(b.name)
	b.set(func() { ended = b.ended }) // after that: what is taken down is ended before its address is free
	if len(addrs) == 0 && ended == nil {
		addrs = b.pool.of(b.name) // it may have been brought meanwhile
	}
	if len(addrs) == 0 && ended == nil {
		addrs = published(svc)
	}
	return addrs, ended
}

// withdraw takes down what runs for a Service that is refused, so that it is
// never half served, and returns the refusal.
func (b *Balancer) withdraw(ctx context.Context, svc *v1.Service, refusal error) error {
	err := b.drop(ctx, refusal)
	if err == nil && len(svc.Status.LoadBalancer.Ingress) > 0 {
		err = b.cfg.ClearStatus(ctx, svc)
	}
	return errors.Join(refusal, err)
}

// Remove ends the load balancer; one that is not there is fine.
func (b *Balancer) Remove(ctx context.Context) error {
	defer b.lock()()
	return b.drop(ctx, errDeleted)
}

// drop takes it down because of why. What was reserved stays so until that
// is done: Addresses says so, and the controller tries again.
func (b *Balancer) drop(ctx context.Context, why error) error {
	b.set(func() { b.ended = why })
	if err := b.cfg.Instances.Stop(ctx, b.name); err != nil {
		return err
	}
	b.cfg.Recorder.Detach(b.name)
	if err := b.dir.remove(); err != nil {
		return err
	}
	b.pool.release(b.name)
	b.set(func() { b.drains, b.leaving = nil, nil })
	return nil
}

func isRefusal(err error) bool { return errors.As(err, new(*lbplan.Refusal)) }
