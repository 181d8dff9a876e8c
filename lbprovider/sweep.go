package lbprovider

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// sweep adopts what runs and removes what no Service wants any more.
func (b *balancer) sweep(ctx context.Context, wanted []*v1.Service) error {
	all, err := b.Instances.List(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, svc := range wanted {
		names[b.name(svc)] = true
	}
	var kept []instance.Instance
	for _, i := range all {
		if !names[i.Name] {
			b.Log.Info("load balancer of a Service that is gone is removed", "lb", i.Service, "instance", i.Name)
			if err := b.remove(ctx, i.Name); err != nil {
				return err
			}
			continue
		}
		kept = append(kept, i)
		if err := b.attach(ctx, i); err != nil {
			return err
		}
	}
	b.reserve(wanted, kept)
	return b.sweepDirs(kept)
}

// attach takes over a load balancer that an earlier process started.
func (b *balancer) attach(ctx context.Context, i instance.Instance) error {
	d := b.dir(i.Name)
	if err := d.make(); err != nil {
		return err
	}
	if err := b.Recorder.Attach(i.Name, i.Service, d.path); err != nil {
		return err
	}
	b.note(i.Name, func(m *memory) { m.spec = b.specOf(i) })
	if now, err := haproxy.NewClient(d.path).Running(ctx); err == nil {
		b.Recorder.Seed(i.Name, i.Service, now.Servers)
	}
	return nil
}

// specOf is what i was started with.
func (b *balancer) specOf(i instance.Instance) instance.Spec {
	d := b.dir(i.Name)
	return instance.Spec{Name: i.Name, Service: i.Service, UID: i.UID, Dir: d.path, Addrs: i.Addrs, Owner: d.owner()}
}

// sweepDirs removes the directories of load balancers that are not kept, and
// nothing that is not ours: the state directory is a flag.
func (b *balancer) sweepDirs(kept []instance.Instance) error {
	entries, err := os.ReadDir(b.StateDir)
	if err != nil {
		return fmt.Errorf("list the load balancers' directories: %w", err)
	}
	keep := map[string]bool{}
	for _, i := range kept {
		keep[i.Name] = true
	}
	for _, e := range entries {
		if e.IsDir() && isName(e.Name()) && !keep[e.Name()] {
			if err := b.dir(e.Name()).remove(); err != nil {
				return err
			}
		}
	}
	return nil
}
