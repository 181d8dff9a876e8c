package lbprovider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
)

// converge brings a running HAProxy to cfg: by its socket where that can be,
// else by a reload. One that already runs cfg is not touched. The connections of nodes that
// are gone begin to drain once that is done.
func (b *balancer) converge(ctx context.Context, name string, cfg haproxy.Config, now haproxy.Running) error {
	b.Recorder.Seed(name, cfg.LB.Service, now.Servers)
	b.leave(name, now, cfg)
	var err error
	if delta := haproxy.Change(now, cfg); delta.Reload {
		err = b.reload(ctx, name, cfg, now)
	} else {
		err = b.change(ctx, name, cfg, delta)
	}
	if err == nil {
		b.drain(name)
	}
	return err
}

func (b *balancer) change(ctx context.Context, name string, cfg haproxy.Config, delta haproxy.Delta) error {
	d := b.dir(name)
	// Before anything changes: a crash from here on starts with cfg, all DOWN.
	if err := errors.Join(d.write(haproxy.ConfigFile, haproxy.Render(cfg)), d.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{}))); err != nil {
		return err
	}
	if len(delta.Commands) == 0 {
		return nil
	}
	return b.command(ctx, name, cfg, delta)
}

// command changes servers through the socket and looks whether it worked.
func (b *balancer) command(ctx context.Context, name string, cfg haproxy.Config, delta haproxy.Delta) error {
	c := haproxy.NewClient(b.dir(name).path)
	if !delta.Done() {
		b.Recorder.LB(cfg.LB.Service, stateRuntime, fmt.Sprintf("%d server changes", len(delta.Commands)-delta.Drains))
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
	b.Recorder.Seed(name, cfg.LB.Service, now.Servers)
	if haproxy.Change(now, cfg).Done() {
		b.Log.Info("load balancer changed at runtime", "lb", cfg.LB.Service, "commands", len(delta.Commands))
		return nil
	}
	b.Log.Warn("runtime commands did not do it, reloading", "lb", cfg.LB.Service, "commands", delta.Commands, "answers", answers)
	return b.reload(ctx, name, cfg, now)
}

// reload starts a worker with cfg that takes over the listening sockets and
// the states of servers. The file of states is only for this worker: right
// after, it says DOWN again for one that a crash would start. If no worker
// takes over, the old one serves on and its files are put back.
func (b *balancer) reload(ctx context.Context, name string, cfg haproxy.Config, now haproxy.Running) error {
	d := b.dir(name)
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	c := haproxy.NewClient(d.path)
	teaches := false
	if cfg.LB.Affinity > 0 {
		var err error
		if teaches, err = c.Learned(ctx); err != nil {
			return err
		}
	}
	oldConfig, errConfig := d.read(haproxy.ConfigFile)
	oldStates, errStates := d.read(haproxy.StatesFile)
	if err := errors.Join(errConfig, errStates); err != nil {
		return fmt.Errorf("read the running configuration: %w", err)
	}
	if err := errors.Join(d.write(haproxy.ConfigFile, haproxy.Render(cfg)), d.write(haproxy.StatesFile, haproxy.StateFile(cfg, now))); err != nil {
		return err
	}
	b.Recorder.LB(cfg.LB.Service, stateReload, "")
	if err := c.Reload(ctx, now, haproxy.BaseOf(cfg)); err != nil {
		return errors.Join(err, d.write(haproxy.ConfigFile, oldConfig), d.write(haproxy.StatesFile, oldStates))
	}
	if err := d.write(haproxy.StatesFile, haproxy.StateFile(cfg, haproxy.Running{})); err != nil {
		return err
	}
	b.note(name, func(m *memory) { m.unheard = haproxy.UnheardOf(now, cfg) })
	if teaches {
		b.awaitLearned(ctx, c, cfg)
	}
	after, err := c.Running(ctx)
	if err != nil {
		return err
	}
	b.Recorder.Seed(name, cfg.LB.Service, after.Servers)
	b.Log.Info("load balancer reloaded", "lb", cfg.LB.Service, "servers", len(after.Servers))
	return nil
}

// learnTime is how long a new worker may take to learn which client has which server;
// milliseconds are usual.
const learnTime = 2 * time.Second

// awaitLearned waits until the worker can teach the one after it.
func (b *balancer) awaitLearned(ctx context.Context, c *haproxy.Client, cfg haproxy.Config) {
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	if err := c.AwaitLearned(ctx); err != nil {
		b.Log.Warn("clients' servers were not handed over at a reload; who comes is placed by the hash of its address", "lb", cfg.LB.Service, "error", err)
	}
}
