package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/observe"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/verdict"
)

const (
	controlRate = 20.0
	preRoll     = 3 * time.Second // clean before the restart
	postRoll    = 2 * time.Second // after everything has settled
)

// rollout records one restart of the workload under load and judges it.
func (r *runner) rollout(ctx context.Context, n, row int, dir string) (verdict.Rollout, error) {
	before, err := r.settled(ctx)
	if err != nil {
		return verdict.Rollout{}, err
	}
	t, err := tape.Create(dir, r.settings(n))
	if err != nil {
		return verdict.Rollout{}, err
	}
	from := record.Now()
	err = r.recordWhile(ctx, t, n, func(ctx context.Context) error { return r.restart(ctx, t, n, row, before) })
	if err == nil && r.stage.LB().Front() == OurLB {
		err = r.recordBalancer(t, from)
	}
	if err := errors.Join(err, t.Close()); err != nil {
		return verdict.Rollout{}, err
	}
	in, err := tape.Read(dir)
	if err != nil {
		return verdict.Rollout{}, err
	}
	return verdict.Judge(in), nil
}

// recordBalancer keeps what the load balancer wrote down since from.
func (r *runner) recordBalancer(t *tape.Tape, from int64) error {
	events, err := r.lbEvents(from, record.Now())
	if err != nil {
		return err
	}
	conns, err := r.lbConns(from)
	if err != nil {
		return err
	}
	t.Balancer(events, conns)
	return nil
}

// recordWhile runs act between observers and probes that run from before its
// beginning until after its end.
func (r *runner) recordWhile(ctx context.Context, t *tape.Tape, n int, act func(context.Context) error) error {
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	probing, stopProbing := context.WithCancel(ctx)
	defer stopProbing()
	var g errgroup.Group
	started := make(chan struct{})
	g.Go(func() error {
		defer stopProbing()
		defer stopObserving()
		return observe.Run(observing, r.client, r.observed(), started, t.Event)
	})
	g.Go(func() error {
		defer stopObserving() // last: the probes' answers still belong to observed states
		select {
		case <-started:
		case <-observing.Done():
			return nil
		}
		var probes errgroup.Group
		for _, cfg := range r.probes(n) {
			probes.Go(func() error { return probe.Run(probing, cfg, t.Attempt) })
		}
		err := act(probing)
		stopProbing()
		return errors.Join(err, probes.Wait())
	})
	return g.Wait()
}

// probes are the streams of one rollout. Rows share seeds, so that all
// dataplanes see the same arrivals.
func (r *runner) probes(n int) []probe.Config {
	seed := r.Seed*1000 + uint64(n)
	return []probe.Config{
		{Stream: record.Main, Target: r.target, Rate: r.Rate, Seed: seed, Deadline: hardDeadline},
		{Stream: record.Control, Target: r.stage.Control(), Rate: controlRate, Seed: seed, Deadline: hardDeadline},
	}
}

func (r *runner) observed() observe.Config {
	cfg := observe.Config{
		Namespace: r.app.Namespace, Service: r.app.Name, Selector: r.app.Selector(), Nodes: map[string]netip.Addr{},
		NodePort: uint16(r.service.Spec.Ports[0].NodePort), HCNP: uint16(r.service.Spec.HealthCheckNodePort),
		SharesAddress: r.stage.SharesAddress(),
	}
	for _, node := range r.nodes {
		cfg.Nodes[node.Name] = node.Addr4()
	}
	return cfg
}

// restart restarts the workload and waits until all has settled again.
func (r *runner) restart(ctx context.Context, t *tape.Tape, n, row int, before pod) error {
	if err := kubewait.Pause(ctx, preRoll); err != nil {
		return err
	}
	t.Event(record.Event{At: record.Now(), Kind: record.KindAct, State: "restart"})
	if _, err := (disrupt.Restart{App: r.app}).Do(ctx, r.world()); err != nil {
		return err
	}
	if err := r.admit(ctx, r.phase(n, row)); err != nil {
		return err
	}
	after, err := r.settled(ctx)
	if err != nil {
		return err
	}
	if after.node == before.node || after.name == before.name {
		return fmt.Errorf("the workload did not move: pod %s on %s, then %s on %s", before.name, before.node, after.name, after.node)
	}
	t.Event(record.Event{At: record.Now(), Kind: record.KindAct, State: "settled"})
	return kubewait.Pause(ctx, postRoll)
}

// phase is a random part of a check interval, by which the new pod's admission
// is put off (workload.Gate): the model takes the phases of rollouts to be
// independent.
func (r *runner) phase(n, row int) time.Duration {
	rng := rand.New(rand.NewPCG(r.Seed, uint64(row)<<32|uint64(n)))
	return time.Duration(rng.Float64() * float64(r.stage.LB().Profile().Interval))
}

// lbEvents are the load balancer's events since from, behind one event for the
// state each server was in at that time.
func (r *runner) lbEvents(from, to int64) ([]record.Event, error) {
	all, err := r.stage.LB().Events()
	if err != nil {
		return nil, err
	}
	lb := r.settings(0).LB
	initial := map[string]record.Event{}
	var out []record.Event
	for _, e := range all {
		switch {
		case e.LB != lb || e.At > to:
		case e.At >= from:
			out = append(out, e)
		case e.Kind == record.KindServer:
			e.At, e.After = from, 0
			initial[e.Node] = e
		}
	}
	var first []record.Event
	for _, node := range r.nodes {
		if e, ok := initial[node.Name]; ok {
			first = append(first, e)
		}
	}
	return append(first, out...), nil
}

// lbConns are the connections the load balancer accepted since from.
func (r *runner) lbConns(from int64) ([]record.Conn, error) {
	all, err := r.stage.LB().Conns()
	if err != nil {
		return nil, err
	}
	var out []record.Conn
	for _, c := range all {
		if c.Accepted >= from-int64(time.Second) && c.LB == r.settings(0).LB {
			out = append(out, c)
		}
	}
	return out, nil
}
