package lbprovider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
)

// sweep adopts what runs and removes what no Service wants any more.
func (b *balancer) sweep(ctx context.Context, wanted func(service, uid string) bool) error {
	all, err := b.Instances.List(ctx)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, i := range all {
		if !wanted(i.Service, i.UID) {
			b.Log.Info("load balancer of a Service that is gone is removed", "lb", i.Service, "container", i.Name)
			if err := b.remove(ctx, i.Name); err != nil {
				return err
			}
			continue
		}
		kept[i.Name] = true
		d := b.dir(i.Name)
		if err := errors.Join(d.make(), b.Recorder.Attach(i.Name, i.Service, d.path)); err != nil {
			return err
		}
		if now, err := haproxy.NewClient(d.path).Running(ctx); err == nil {
			b.Recorder.Seed(i.Service, now.Servers)
		}
	}
	return b.sweepDirs(kept)
}

func (b *balancer) sweepDirs(kept map[string]bool) error {
	entries, err := os.ReadDir(b.StateDir)
	if err != nil {
		return fmt.Errorf("list the load balancers' directories: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !kept[e.Name()] {
			if err := b.dir(e.Name()).remove(); err != nil {
				return err
			}
		}
	}
	return nil
}

// revive waits for Docker to restart a load balancer that ended (it does after
// a crash), and starts it anew if Docker leaves it ended (after docker kill).
func (b *balancer) revive(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, reviveTimeout)
	defer cancel()
	tick := time.NewTicker(reviveTimeout / 20)
	defer tick.Stop()
	for {
		// Docker tells of the end before its list of containers shows it.
		if done, err := b.reviveStopped(ctx, name); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reviveStopped reports whether nothing is left to be done. The files in the
// load balancer's directory are still right: all servers begin DOWN.
func (b *balancer) reviveStopped(ctx context.Context, name string) (bool, error) {
	defer b.lock(name)()
	i, ok, err := b.find(ctx, name)
	if err != nil || !ok {
		return true, err
	}
	if !i.Stopped {
		return false, nil
	}
	d := b.dir(name)
	b.Log.Info("load balancer was stopped and is started again", "lb", i.Service, "container", name)
	if err := b.Instances.Stop(ctx, name); err != nil {
		return false, err
	}
	return true, b.Instances.Start(ctx, instance.Spec{Name: name, Service: i.Service, UID: i.UID, Dir: d.path, Addrs: i.Addrs, Owner: d.owner()})
}
