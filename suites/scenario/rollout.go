package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
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

// rollout records one restart of the workload under load and judges each of its streams.
func (r *runner) rollout(ctx context.Context, n, row int, dir string) ([]verdict.Rollout, error) {
	before, err := r.settled(ctx)
	if err != nil {
		return nil, err
	}
	var streams []tape.Stream
	for _, t := range r.targets {
		streams = append(streams, t.Stream)
	}
	t, err := tape.Create(dir, r.settings(n), streams...)
	if err != nil {
		return nil, err
	}
	err = r.record(ctx, t, n, func(ctx context.Context) error { return r.restart(ctx, t, n, row, before) })
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

// record keeps on the tape what is seen of act by probes, observers, the load balancer and,
// where nodes are within reach, taps.
func (r *runner) record(ctx context.Context, t *tape.Tape, n int, act func(context.Context) error) error {
	from := record.Now()
	ours := r.stage.LB().Front() == OurLB
	var seen *taps
	var late troubled
	sides := map[netip.AddrPort]bool{}
	if ours {
		seen = newTaps(r.nodes, r.ports())
		defer func() { seen.stop(t, sides) }()
	}
	err := r.recordWhile(ctx, t, func(a record.Attempt) { t.Attempt(a); late.add(a) }, n, act)
	if err != nil || !ours {
		return err
	}
	events, err := r.lbEvents(from, record.Now())
	if err != nil {
		return err
	}
	conns, err := r.lbConns(from)
	if err != nil {
		return err
	}
	t.Balancer(events, conns)
	sides = late.sides(conns)
	return nil
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

// recordWhile runs act between observers and probes that run from before its
// beginning until after its end.
func (r *runner) recordWhile(ctx context.Context, t *tape.Tape, attempt func(record.Attempt), n int, act func(context.Context) error) error {
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
			probes.Go(func() error { return probe.Run(probing, cfg, attempt) })
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
	all := []probe.Config{{Stream: record.Control, Target: r.stage.Control(), Rate: controlRate, Seed: seed, Deadline: hardDeadline}}
	for _, t := range r.targets {
		all = append(all, probe.Config{Stream: t.Name, Target: t.addr, Rate: r.Rate, Seed: seed, Deadline: hardDeadline})
	}
	return all
}

func (r *runner) observed() observe.Config {
	cfg := observe.Config{
		Namespace: r.app.Namespace, Service: r.app.Name, Selector: r.app.Selector(), Nodes: map[string][]netip.Addr{},
		NodePort: uint16(r.service.Spec.Ports[0].NodePort), HCNP: uint16(r.service.Spec.HealthCheckNodePort),
		SharesAddress: r.stage.SharesAddress(),
	}
	for _, node := range r.nodes {
		cfg.Nodes[node.Name] = node.Addrs
		if len(r.targets) < 2 {
			cfg.Nodes[node.Name] = []netip.Addr{node.Addr4()}
		}
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
	lb := r.lbName()
	type server struct {
		node   string
		family record.Family
	}
	initial := map[server]record.Event{}
	var out []record.Event
	for _, e := range all {
		switch {
		case e.LB != lb || e.At > to:
		case e.At >= from:
			out = append(out, e)
		case e.Kind == record.KindServer:
			e.At, e.After = from, 0
			initial[server{e.Node, e.Family}] = e
		}
	}
	var first []record.Event
	for _, node := range r.nodes {
		for _, family := range []record.Family{"", record.IPv4, record.IPv6} {
			if e, ok := initial[server{node.Name, family}]; ok {
				first = append(first, e)
			}
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
		if c.Accepted >= from-int64(time.Second) && c.LB == r.lbName() {
			out = append(out, c)
		}
	}
	return out, nil
}
