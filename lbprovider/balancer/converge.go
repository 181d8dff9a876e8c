package balancer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// converge brings a running HAProxy to cfg: by its socket where that can be,
// else by a reload. One that already runs cfg is not touched. The connections of nodes that
// are gone begin to drain once that is done.
func (b *Balancer) converge(ctx context.Context, cfg haproxy.Config, now haproxy.Running) error {
	b.cfg.Recorder.Seed(b.name, cfg.LB.Service, now.Servers)
	b.leave(now, cfg)
	var err error
	if delta := haproxy.Change(now, cfg); delta.Reload {
		err = b.reload(ctx, cfg, now)
	} else {
		err = b.change(ctx, cfg, delta)
	}
	if err == nil {
		b.drain()
	}
	return err
}

func (b *Balancer) change(ctx context.Context, cfg haproxy.Config, delta haproxy.Delta) error {
	// Before anything changes: a crash from here on starts with cfg, all DOWN.
	if err := errors.Join(b.dir.write(haproxy.ConfigFile, haproxy.Render(cfg)), b.dir.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{}))); err != nil {
		return err
	}
	if len(delta.Commands) == 0 {
		return nil
	}
	return b.command(ctx, cfg, delta)
}

// command changes servers through the socket and looks whether it worked.
func (b *Balancer) command(ctx context.Context, cfg haproxy.Config, delta haproxy.Delta) error {
	c := b.client()
	if !delta.Done() {
		b.cfg.Recorder.LB(cfg.LB.Service, record.LBRuntime, fmt.Sprintf("%d server changes", len(delta.Commands)-delta.Drains))
	}
	var answers []string
	for _, line := range delta.Commands {
		answer, err := c.Do(ctx, line)
		if err != nil {
			return err
		}
		answers = append(answers, strings.Join(strings.Fields(answer), " "))
	}
	now, err := c.Running(ctx)
	if err != nil {
		return err
	}
	b.cfg.Recorder.Seed(b.name, cfg.LB.Service, now.Servers)
	if haproxy.Change(now, cfg).Done() {
		b.cfg.Log.Info("load balancer changed at runtime", "lb", cfg.LB.Service, "commands", len(delta.Commands))
		return nil
	}
	b.cfg.Log.Warn("runtime commands did not do it, reloading", "lb", cfg.LB.Service, "commands", delta.Commands, "answers", answers)
	return b.reload(ctx, cfg, now)
}

// reloadTimeout is for a new worker to take over.
const reloadTimeout = 15 * time.Second

// reload starts a worker with cfg that takes over the listening sockets and
// the states of servers. The file of states is only for this worker: right
// after, it says DOWN again for one that a crash would start. If no worker
// takes over, the old one serves on and its files are put back.
func (b *Balancer) reload(ctx context.Context, cfg haproxy.Config, now haproxy.Running) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	c := b.client()
	teaches := false
	if cfg.LB.Affinity > 0 {
		var err error
		if teaches, err = c.Learned(ctx); err != nil {
			return err
		}
	}
	oldConfig, errConfig := b.dir.read(haproxy.ConfigFile)
	oldStates, errStates := b.dir.read(haproxy.StatesFile)
	if err := errors.Join(errConfig, errStates); err != nil {
		return fmt.Errorf("read the running configuration: %w", err)
	}
	if err := errors.Join(b.dir.write(haproxy.ConfigFile, haproxy.Render(cfg)), b.dir.write(haproxy.StatesFile, haproxy.StateFile(cfg, now))); err != nil {
		return err
	}
	b.cfg.Recorder.LB(cfg.LB.Service, record.LBReload, "")
	if err := c.Reload(ctx, now, haproxy.BaseOf(cfg)); err != nil {
		return errors.Join(err, b.dir.write(haproxy.ConfigFile, oldConfig), b.dir.write(haproxy.StatesFile, oldStates))
	}
	if err := b.dir.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{})); err != nil {
		return err
	}
	b.set(func() { b.unheard = haproxy.UnheardOf(now, cfg) })
	if teaches {
		b.awaitLearned(ctx, c, cfg)
	}
	after, err := c.Running(ctx)
	if err != nil {
		return err
	}
	b.cfg.Recorder.Seed(b.name, cfg.LB.Service, after.Servers)
	b.cfg.Recorder.LB(cfg.LB.Service, record.LBReloaded, "")
	b.cfg.Log.Info("load balancer reloaded", "lb", cfg.LB.Service, "servers", len(after.Servers))
	return nil
}

// learnTime is how long a new worker may take to learn which client has which server;
// milliseconds are usual.
const learnTime = 2 * time.Second

// awaitLearned waits until the worker can teach the one after it.
func (b *Balancer) awaitLearned(ctx context.Context, c *haproxy.Client, cfg haproxy.Config) {
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	if err := c.AwaitLearned(ctx); err != nil {
		b.cfg.Log.Warn("clients' servers were not handed over at a reload; who comes is placed by the hash of its address", "lb", cfg.LB.Service, "error", err)
	}
}
