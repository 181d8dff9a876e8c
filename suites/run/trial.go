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
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/fixtures/observe"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

const controlRate = 20.0

// trial records the scenario's steps under load, once, and judges each of its streams; also if the
// steps did not come to their end, since what was lost until then was lost.
func (p *play) trial(ctx context.Context, n int, dir string) ([]verdict.Rollout, error) {
	if err := p.inPhase(ctx, n); err != nil {
		return nil, err
	}
	if err := p.forget(); err != nil {
		p.log.Warn("what an earlier rollout left may be met", "error", err)
	}
	var streams []tape.Stream
	for _, t := range p.targets {
		streams = append(streams, t.Stream)
	}
	t, err := tape.Create(dir, p.settings(n), streams...)
	if err != nil {
		return nil, err
	}
	brokenOff := p.record(ctx, newLive(t, streams), n)
	if brokenOff != nil {
		t.Event(record.Event{At: record.Now(), Kind: record.KindAct, State: record.ActBrokenOff, Detail: brokenOff.Error()})
	}
	if err := t.Close(); err != nil || brokenOff != nil && ctx.Err() != nil {
		return nil, errors.Join(brokenOff, err)
	}
	in, err := tape.Read(dir)
	if err != nil {
		return nil, errors.Join(brokenOff, err)
	}
	var all []verdict.Rollout
	for _, stream := range in {
		all = append(all, verdict.Judge(stream))
	}
	return all, brokenOff
}

// inPhase has the balancer's checks begin anew at a moment of their interval that is the same for
// all rows, and another one in each rollout. A kubelet lets pods in at ticks of its own, 1 s apart,
// which an interval of whole seconds would keep step with: rollouts would be few draws of one
// phase. It is the checks that are moved, since nobody else moves them.
func (p *play) inPhase(ctx context.Context, n int) error {
	interval := time.Duration(p.stage.LB().Profile().Interval)
	w := p.world()
	if !p.Phased || w.Balancers == nil {
		return nil
	}
	wait := (p.phase(n) - time.Duration(record.Now())%interval + interval) % interval
	if err := kubewait.Pause(ctx, wait); err != nil {
		return err
	}
	_, err := disrupt.ReloadLB{LB: p.lb()}.Do(ctx, w)
	return err
}

// record observes from before the first step, which finds a workload that has settled, until after
// the last one.
func (p *play) record(ctx context.Context, l *live, n int) error {
	from := record.Now()
	what := p.observed(ctx)
	observing, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	started := make(chan struct{})
	g.Go(func() error {
		defer stop()
		return observe.Run(observing, p.client, what, started, l.event)
	})
	if p.balanced() {
		f := &follower{lb: p.stage.LB(), name: p.lb().Service, from: from}
		g.Go(func() error {
			defer stop()
			return f.follow(observing, l)
		})
	}
	var disturbed error // is told whoever failed first
	g.Go(func() error {
		defer stop() // last: the probes' answers still belong to observed states
		select {
		case <-started:
		case <-observing.Done():
			return nil
		}
		if err := p.await(observing, l, scenario.Settled()); err != nil {
			return err
		}
		err := p.probed(observing, l, n, from)
		if errors.Is(err, errDisturbed) {
			disturbed = err
		}
		return err
	})
	err := g.Wait()
	if disturbed != nil && !errors.Is(err, errDisturbed) {
		err = errors.Join(err, disturbed)
	}
	return err
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
	err := p.steps(probing, l)
	stop()
	err = errors.Join(err, probes.Wait())
	if !p.balanced() {
		return err
	}
	conns, connsErr := p.lbConns(from) // also of a rollout that broke off: they tell whose losses were
	if o, ok := p.stage.LB().(opening); ok {
		open, err := o.Open(ctx, p.lb())
		if err != nil {
			p.log.Warn("connections that are still open are not known", "error", err)
		}
		conns = append(conns, open...)
	}
	l.tape.Balancer(nil, conns)
	sides = late.sides(conns)
	return errors.Join(err, connsErr)
}

// opening is a load balancer that tells of connections before they end.
type opening interface {
	Open(ctx context.Context, lb disrupt.LB) ([]record.Conn, error)
}

// steps does what the scenario says, and takes back what of it has an undo, last first, however it
// ends.
func (p *play) steps(ctx context.Context, l *live) (err error) {
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
		if err := p.await(ctx, l, s.When); err != nil {
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
			l.first(p.now(), func(now scenario.Now) { act = s.Do(now) })
		}
		if act != nil && s.Name != "" { // what is not noted belongs to what was before
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
func (p *play) now() scenario.Now {
	now := scenario.Now{
		App: p.app, Replicas: p.Replicas, Policy: p.policy(), Balanced: p.balanced(), Balancer: p.lb(), Limit: p.limit(),
	}
	for _, node := range p.nodes {
		now.Workers = append(now.Workers, node.Name)
	}
	slices.Sort(now.Workers)
	return now
}

// await waits until a condition holds. A load balancer of which nothing is known must have answered
// all along as well.
func (p *play) await(ctx context.Context, l *live, c scenario.Condition) error {
	if c.Holds == nil {
		return nil
	}
	if err := l.await(ctx, p.now(), c, p.limit()); err != nil || p.balanced() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	return p.answered(ctx)
}

// limit is how long a step may wait: for what is no matter of the dataplane, and the pod's own time.
func (p *play) limit() time.Duration {
	return p.Timeouts.Settle + p.params.PreStop + p.params.Delay + p.params.MinReady
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

// sourced is a stage on which clients may have several addresses.
type sourced interface{ Sources() []netip.Addr }

// sources are those of the target's IP family; none: the kernel chooses.
func (p *play) sources(t target) []netip.Addr {
	stage, ok := p.stage.(sourced)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(stage.Sources()), func(a netip.Addr) bool { return record.FamilyOf(a) != record.FamilyOf(t.addr.Addr()) })
}

// probes are the streams of one rollout. Rows share seeds, so that all
// dataplanes see the same arrivals.
func (p *play) probes(n int) []probe.Config {
	seed := p.Seed*1000 + uint64(n)
	all := []probe.Config{{Stream: record.Control, Target: p.stage.Control(), Rate: controlRate, Seed: seed, Deadline: scenario.Deadline}}
	for _, t := range p.targets {
		all = append(all, probe.Config{Stream: t.Name, Target: t.addr, Rate: p.params.Rate, Seed: seed, Deadline: scenario.Deadline, Sources: p.sources(t)})
	}
	return all
}

// roomed is a load balancer whose network namespace can be entered.
type roomed interface {
	NetNS(ctx context.Context, lb disrupt.LB) (string, error)
}

func (p *play) observed(ctx context.Context) observe.Config {
	cfg := observe.Config{
		Namespace: p.app.Namespace, Service: p.app.Name, Selector: p.app.Selector(), Nodes: map[string][]netip.Addr{},
		NodePort: uint16(p.service.Spec.Ports[0].NodePort), HCNP: uint16(p.service.Spec.HealthCheckNodePort),
		SharesAddress: p.stage.SharesAddress(),
		Direct:        map[string]string{}, PodPort: workload.Port,
	}
	if b, ok := p.stage.LB().(roomed); ok && !cfg.SharesAddress {
		room, err := b.NetNS(ctx, p.lb())
		if err == nil {
			err = netns.At(room).Do(func() error { return nil })
		}
		if err != nil {
			p.log.Warn("nothing is asked from the load balancer's own address", "error", err)
		} else {
			cfg.Balancer = room
		}
	}
	for _, node := range p.nodes {
		cfg.Nodes[node.Name] = node.Addrs
		if len(p.targets) < 2 {
			cfg.Nodes[node.Name] = []netip.Addr{node.Addr4()}
		}
		if node.NetNS != "" {
			cfg.Direct[node.Name] = node.NetNS
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
