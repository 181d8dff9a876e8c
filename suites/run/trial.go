package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/observe"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

const controlRate = 20.0

// trial records the scenario's steps under load, once, and judges each of its streams.
func (p *play) trial(ctx context.Context, n int, dir string) ([]verdict.Rollout, error) {
	var streams []tape.Stream
	for _, t := range p.targets {
		streams = append(streams, t.Stream)
	}
	t, err := tape.Create(dir, p.settings(n), streams...)
	if err != nil {
		return nil, err
	}
	err = p.record(ctx, newLive(t, streams), n)
	if err := errors.Join(err, t.Close()); err != nil {
		return nil, err
	}
	in, err := tape.Read(dir)
	if err != nil {
		return nil, err
	}
	var all []verdict.Rollout
	for _, stream := range in {
		all = append(all, verdict.Judge(stream))
	}
	return all, nil
}

// record observes from before the first step, which finds a workload that has settled, until after
// the last one.
func (p *play) record(ctx context.Context, l *live, n int) error {
	from := record.Now()
	observing, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	started := make(chan struct{})
	g.Go(func() error {
		defer stop()
		return observe.Run(observing, p.client, p.observed(), started, l.event)
	})
	if p.balanced() {
		f := &follower{lb: p.stage.LB(), name: p.lb().Service, from: from}
		g.Go(func() error {
			defer stop()
			return f.follow(observing, l)
		})
	}
	g.Go(func() error {
		defer stop() // last: the probes' answers still belong to observed states
		select {
		case <-started:
		case <-observing.Done():
			return nil
		}
		if err := p.await(observing, l, n, scenario.Settled()); err != nil {
			return err
		}
		return p.probed(observing, l, n, from)
	})
	return g.Wait()
}

// balanced: the load balancer is ours, and its states are recorded.
func (p *play) balanced() bool { return p.stage.LB().Front() == OurLB }

// probed does the steps under load. Connections that the load balancer served are kept, and, where
// nodes are within reach, packets of requests that were not answered at once.
func (p *play) probed(ctx context.Context, l *live, n int, from int64) error {
	var seen *taps
	var late troubled
	sides := map[netip.AddrPort]bool{}
	if p.balanced() {
		seen = newTaps(p.nodes, p.ports())
		defer func() { seen.stop(l.tape, sides) }()
	}
	probing, stop := context.WithCancel(ctx)
	defer stop()
	var probes errgroup.Group
	for _, cfg := range p.probes(n) {
		probes.Go(func() error {
			return probe.Run(probing, cfg, func(a record.Attempt) { l.tape.Attempt(a); late.add(a) })
		})
	}
	err := p.steps(probing, l, n)
	stop()
	if err = errors.Join(err, probes.Wait()); err != nil || !p.balanced() {
		return err
	}
	conns, err := p.lbConns(from)
	if err != nil {
		return err
	}
	l.tape.Balancer(nil, conns)
	sides = late.sides(conns)
	return nil
}

// steps does what the scenario says, and takes back what of it has an undo, last first, however it
// ends.
func (p *play) steps(ctx context.Context, l *live, n int) (err error) {
	var undos []disrupt.Undo
	undo := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Timeouts.Settle)
		defer cancel()
		var all error
		for _, u := range slices.Backward(undos) {
			all = errors.Join(all, u(ctx))
		}
		undos = nil
		if all != nil {
			return fmt.Errorf("%w: %w", errDisturbed, all)
		}
		return nil
	}
	defer func() { err = errors.Join(err, undo()) }()
	for _, s := range p.Steps {
		if err := p.await(ctx, l, n, s.When); err != nil {
			return err
		}
		if err := kubewait.Pause(ctx, s.Wait); err != nil {
			return err
		}
		if s.Undo {
			if err := undo(); err != nil {
				return err
			}
		}
		var act disrupt.Act
		if s.Do != nil {
			l.now(p.now(n), func(now scenario.Now) { act = s.Do(now) })
			l.act()
		}
		for _, e := range noted(s.Name, act) {
			l.event(e)
		}
		if act == nil {
			continue
		}
		back, err := act.Do(ctx, p.world())
		undos = append(undos, back)
		if err != nil {
			return err
		}
	}
	return nil
}

// noted are the records of what is done, with whom it is done to.
func noted(name string, act disrupt.Act) []record.Event {
	if name == "" {
		return nil
	}
	e := record.Event{At: record.Now(), Kind: record.KindAct, State: name}
	switch a := act.(type) {
	case disrupt.CutAPI:
		var all []record.Event
		for _, node := range a.Nodes {
			e.Node = node
			all = append(all, e)
		}
		return all
	case disrupt.Delete:
		e.Pod = a.Pod
	case disrupt.EndLB:
		e.LB = a.LB.Service
	}
	return []record.Event{e}
}

// now is what is known beside the states.
func (p *play) now(n int) scenario.Now {
	now := scenario.Now{
		App: p.app, Replicas: p.Replicas, Policy: p.policy(), Balanced: p.balanced(), Balancer: p.lb(), Phase: p.phase(n), Limit: p.Timeouts.Settle,
	}
	for _, node := range p.nodes {
		now.Workers = append(now.Workers, node.Name)
	}
	slices.Sort(now.Workers)
	return now
}

// await waits until a condition holds. A load balancer of which nothing is known must have answered
// all along as well.
func (p *play) await(ctx context.Context, l *live, n int, c scenario.Condition) error {
	if c.Holds == nil {
		return nil
	}
	limit := p.Timeouts.Settle + p.params.PreStop + p.params.Delay + p.params.MinReady
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := l.await(ctx, p.now(n), c, limit); err != nil || p.balanced() {
		return err
	}
	return p.answered(ctx)
}

// troubled are the clients of attempts that were not answered at once.
type troubled struct {
	mu      sync.Mutex // guards clients
	clients map[netip.AddrPort]bool
}

func (l *troubled) add(a record.Attempt) {
	if a.BodyOK && a.Failure == "" && a.End-a.Start < verdict.SlowAfter.Nanoseconds() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients = map[netip.AddrPort]bool{}
	}
	l.clients[a.Src] = true
}

// sides are the balancer's ends of their connections to the nodes.
func (l *troubled) sides(conns []record.Conn) map[netip.AddrPort]bool {
	out := map[netip.AddrPort]bool{}
	for _, c := range conns {
		if l.clients[c.Client] && c.Source.IsValid() {
			out[c.Source] = true
		}
	}
	return out
}

// probes are the streams of one rollout. Rows share seeds, so that all
// dataplanes see the same arrivals.
func (p *play) probes(n int) []probe.Config {
	seed := p.Seed*1000 + uint64(n)
	all := []probe.Config{{Stream: record.Control, Target: p.stage.Control(), Rate: controlRate, Seed: seed, Deadline: scenario.Deadline}}
	for _, t := range p.targets {
		all = append(all, probe.Config{Stream: t.Name, Target: t.addr, Rate: p.params.Rate, Seed: seed, Deadline: scenario.Deadline})
	}
	return all
}

func (p *play) observed() observe.Config {
	cfg := observe.Config{
		Namespace: p.app.Namespace, Service: p.app.Name, Selector: p.app.Selector(), Nodes: map[string][]netip.Addr{},
		NodePort: uint16(p.service.Spec.Ports[0].NodePort), HCNP: uint16(p.service.Spec.HealthCheckNodePort),
		SharesAddress: p.stage.SharesAddress(),
	}
	for _, node := range p.nodes {
		cfg.Nodes[node.Name] = node.Addrs
		if len(p.targets) < 2 {
			cfg.Nodes[node.Name] = []netip.Addr{node.Addr4()}
		}
	}
	return cfg
}

// lbConns are the connections the load balancer accepted since from.
func (p *play) lbConns(from int64) ([]record.Conn, error) {
	all, err := p.stage.LB().Conns()
	if err != nil {
		return nil, err
	}
	var out []record.Conn
	for _, c := range all {
		if c.Accepted >= from-int64(time.Second) && c.LB == p.lb().Service {
			out = append(out, c)
		}
	}
	return out, nil
}
