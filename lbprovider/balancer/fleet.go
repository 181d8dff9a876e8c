// Package balancer runs the load balancers of a cluster: a Fleet of them, one Balancer
// for each Service.
//
//	fleet.go      which there are: adopted and swept at a start, followed by their events
//	ensure.go     what is asked of one: ensure, update, reload, remove
//	revive.go     one that ended is started again
//	bring.go      a Service to what should run: adopted as it is, or started anew
//	converge.go   a HAProxy that runs to its configuration: socket commands or a reload
//	drain.go      connections of nodes that were removed end after a while
//	addresses.go  who has which address of the pool
//	balancer.go   one load balancer: its lock, and what is known of it
//	files.go      its directory
//
// A file calls only those below it.
package balancer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/lbprovider/instance"
)

// Fleet are the load balancers of one cluster. Safe for concurrent use: operations on one
// load balancer exclude each other, those on different ones run in parallel.
type Fleet struct {
	cfg  *Config // const after New
	pool *pool

	mu  sync.Mutex           // guards all
	all map[string]*Balancer // by name; never removed
}

// New returns a fleet. Sweep should be called once before it is used.
func New(c Config) *Fleet {
	return &Fleet{cfg: &c, pool: newPool(c.Instances, c.Ranges), all: map[string]*Balancer{}}
}

// Of returns the load balancer of svc, whether it runs or not.
func (f *Fleet) Of(svc *v1.Service) *Balancer { return f.at(f.name(svc)) }

func (f *Fleet) name(svc *v1.Service) string { return instance.Name(f.cfg.Cluster, string(svc.UID)) }

func (f *Fleet) at(name string) *Balancer {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.all[name]
	if !ok {
		b = newBalancer(f.cfg, f.pool, name)
		f.all[name] = b
	}
	return b
}

// Sweep attaches to the load balancers that run, and removes those whose Service is
// gone: wanted are those that are still the controller's to serve or to clean up. What
// these publish is kept for them.
func (f *Fleet) Sweep(ctx context.Context, wanted []*v1.Service) error {
	running, err := f.cfg.Instances.List(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, svc := range wanted {
		names[f.name(svc)] = true
	}
	kept := map[string][]netip.Addr{}
	for _, i := range running {
		b := f.at(i.Name)
		if !names[i.Name] {
			f.cfg.Log.Info("load balancer of a Service that is gone is removed", "lb", i.Service, "instance", i.Name)
			if err := b.Remove(ctx); err != nil {
				return err
			}
			continue
		}
		kept[i.Name] = i.Addrs
		if err := b.attach(ctx, i); err != nil {
			return err
		}
	}
	f.pool.keep(kept, f.publishedBy(wanted))
	return f.sweepDirs(kept)
}

// publishedBy is what wanted publish; of two that publish the same, the older one has it.
func (f *Fleet) publishedBy(wanted []*v1.Service) []claim {
	var out []claim
	for _, svc := range slices.SortedFunc(slices.Values(wanted), byAge) {
		out = append(out, claim{f.name(svc), published(svc)})
	}
	return out
}

// sweepDirs removes the directories of load balancers that are not kept, and
// nothing that is not ours: the state directory is a flag.
func (f *Fleet) sweepDirs(kept map[string][]netip.Addr) error {
	entries, err := os.ReadDir(f.cfg.StateDir)
	if err != nil {
		return fmt.Errorf("list the load balancers' directories: %w", err)
	}
	for _, e := range entries {
		if _, ok := kept[e.Name()]; ok || !e.IsDir() || !isName(e.Name()) {
			continue
		}
		if err := newRunDir(filepath.Join(f.cfg.StateDir, e.Name())).remove(); err != nil {
			return err
		}
	}
	return nil
}

// isName says whether name is one that Fleet.name makes.
func isName(name string) bool {
	h, ok := strings.CutPrefix(name, instance.NamePrefix)
	raw, err := hex.DecodeString(h)
	return ok && err == nil && len(raw) == instance.NameBytes && hex.EncodeToString(raw) == h
}

// Follow notes what watch tells of load balancers that start and end, brings back
// those that nobody else does, and ends the connections of nodes that were removed
// Profile.Drain ago, until ctx ends.
func (f *Fleet) Follow(ctx context.Context, watch func(context.Context, func(instance.Event))) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.endDrains(ctx) })
	watch(ctx, func(e instance.Event) {
		if e.Kind != instance.Removed {
			f.cfg.Recorder.Instance(e)
		}
		if e.Kind != instance.Started {
			wg.Go(func() { f.at(e.Name).revive(ctx) })
		}
	})
}

// Reload reloads all load balancers that serve. One that cannot be keeps no other from it.
func (f *Fleet) Reload(ctx context.Context) error {
	var wg sync.WaitGroup
	all := f.balancers()
	errs := make([]error, len(all))
	for i, b := range all {
		wg.Go(func() { errs[i] = b.Reload(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drainEvery is how often endDrains looks; connections live that much longer at most.
const drainEvery = time.Second

// endDrains ends the connections of servers that were removed Profile.Drain ago, until ctx
// ends. A load balancer that does not answer keeps no other waiting.
func (f *Fleet) endDrains(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-tick.C:
			for _, b := range f.balancers() {
				if b.beginDrain(at) {
					wg.Go(func() { b.endDrain(ctx, at) })
				}
			}
		}
	}
}

func (f *Fleet) balancers() []*Balancer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.all))
}
