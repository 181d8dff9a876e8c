// Package run carries scenarios out: it has a stage install one dataplane after another, does on each
// what the scenarios say, records it, and hands what was recorded to the verdict.
//
//	stage.go      what it runs on
//	run.go        the rows
//	play.go       one scenario on all rows: its workload, its rollouts
//	trial.go      one rollout: probes and observers around the scenario's steps
//	live.go       the states of a rollout while they are recorded
//	taps.go       packets
//	judge.go      the verdict on what was kept
//
// It knows no kind of cluster: what it runs on arrives as a Stage.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/scenario"
)

// runner runs scenarios.
type runner struct {
	scenario.Run
	stage  Stage
	client kubernetes.Interface
	all    int            // nodes of the cluster
	nodes  []cluster.Node // workers: what the load balancer may send to
	dir    string
	used   int // most memory in use for the cluster at the end of a row, MiB
	log    *slog.Logger
	plays  []*play
	began  time.Time // the first rollout
	done   int       // rollouts that count, in all
	at     int       // the row that is being run
	inRow  int       // rollouts of it that count
}

// left is how long the rollouts of this row that are still to be run, and those of the rows behind it,
// may take, as long as those before took.
func (r *runner) left() time.Duration {
	if r.done == 0 {
		return 0
	}
	row := 0
	for _, p := range r.plays {
		row += p.params.Rollouts
	}
	todo := row*(len(r.Rows)-r.at) - r.inRow
	return (time.Since(r.began) / time.Duration(r.done) * time.Duration(max(0, todo))).Round(time.Second)
}

// Do runs every scenario on every row and returns what was measured. A dataplane is installed once,
// and meets all scenarios. Files of records go below dir. An error is the harness's: the summary
// then holds what was done before.
func Do(ctx context.Context, todo scenario.Run, stage Stage, dir string, log *slog.Logger) (report.Summary, error) {
	sum := report.Summary{Started: time.Now().UTC(), LB: stage.LB().Profile(), Command: todo.Command}
	r := &runner{Run: todo, stage: stage, dir: dir, log: log}
	for i, s := range todo.Scenarios {
		r.plays = append(r.plays, newPlay(r, i, s))
	}
	err := r.prepare(ctx)
	if err == nil {
		sum.Environment = r.environment()
		for n, row := range todo.Rows {
			if ctx.Err() != nil {
				break
			}
			if err = r.row(ctx, n, row); err != nil {
				err = fmt.Errorf("%w; the rows after %s are not run", err, row)
				break
			}
		}
		sum.Environment.UsedMiB = r.used
		err = errors.Join(err, ctx.Err())
	}
	for _, p := range r.plays {
		sum.Scenarios = append(sum.Scenarios, p.sum)
	}
	if err != nil {
		sum.Error = err.Error()
	}
	sum.Finished = time.Now().UTC()
	return sum, err
}

// prepare makes the namespace and settles on names; nothing forwards yet.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.client, err = kubernetes.NewForConfig(r.stage.Cluster().RESTConfig()); err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	nodes, err := r.stage.Cluster().Nodes(ctx)
	if err != nil {
		return err
	}
	r.all = len(nodes)
	for _, n := range nodes {
		if !n.ControlPlane {
			r.nodes = append(r.nodes, n)
		}
	}
	if len(r.nodes) < 2 {
		return fmt.Errorf("scenarios need 2 workers, the cluster has %d", len(r.nodes))
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace(), Labels: r.stage.Run().Labels()}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make namespace %s: %w", ns.Name, err)
	}
	return r.fill(ctx)
}

// namespace of the workloads.
func (r *runner) namespace() string { return r.stage.Run().Namespace("test") }

// neighboured is a stage where others may proxy Services beside a row's dataplane.
type neighboured interface{ Beside() []string }

// row installs a dataplane, runs the scenarios and removes the dataplane. Its failure is the row's,
// not the run's: an error says that something of it is left, or of what was done to the cluster.
// In a cluster of two IP families there is a row for each.
func (r *runner) row(ctx context.Context, n int, spec row.Row) error {
	out := report.Row{
		Name: spec.String(), Dataplane: spec.Dataplane, Own: spec.Own(), Judged: spec.Judged(), Mode: mode(spec), NoLocal: spec.NoLocal,
	}
	if spec.Dataplane == row.Upstream {
		out.NoLocal = "drop" // and cannot be told otherwise
	}
	if !slices.ContainsFunc(r.plays, func(p *play) bool { return p.lacks() == "" }) {
		r.each(n, out, func(p *play, row *report.Row) { row.Unsupported = p.lacks() })
		return nil
	}
	r.at, r.inRow = n, 0
	r.log.Info("row", "dataplane", out.Name, "n", n+1, "of", len(r.Rows))
	version, remove, err := r.stage.Install(ctx, spec)
	if lacks, ok := errors.AsType[cluster.Unsupported](err); ok {
		r.log.Warn("dataplane is not supported here", "dataplane", out.Name, "why", lacks.Why)
		r.each(n, out, func(_ *play, row *report.Row) { row.Unsupported = lacks.Why })
		return nil
	}
	if err != nil {
		r.log.Error("dataplane was not installed", "dataplane", out.Name, "error", err)
		r.each(n, out, func(_ *play, row *report.Row) { row.Error = err.Error() })
		if errors.Is(err, cluster.ErrNotRemoved) {
			return errLeft
		}
		return nil
	}
	out.Version = version
	if s, ok := r.stage.(neighboured); ok {
		out.Beside = s.Beside()
	}
	var disturbed error
	for _, p := range r.plays {
		err := p.row(ctx, n, out)
		r.used = max(r.used, r.stage.UsedMiB())
		if errors.Is(err, errDisturbed) {
			disturbed = err
		}
		if ctx.Err() != nil || disturbed != nil {
			break
		}
	}
	// An interrupted run closes its stage next, and with it goes the dataplane.
	if ctx.Err() != nil {
		return disturbed
	}
	if err := remove(ctx); err != nil {
		r.log.Error("dataplane was not removed", "dataplane", out.Name, "error", err)
		for _, p := range r.plays {
			p.spoil(n, err)
		}
		return errors.Join(disturbed, errLeft)
	}
	return disturbed
}

var (
	errLeft      = errors.New("the dataplane could not be removed")
	errDisturbed = errors.New("what was done to the cluster could not be taken back")
)

// each adds the row to every scenario, as it comes out of change.
func (r *runner) each(n int, row report.Row, change func(*play, *report.Row)) {
	for _, p := range r.plays {
		row := p.rowOf(n, row)
		change(p, &row)
		p.sum.Rows = append(p.sum.Rows, row)
	}
}

// mode is how a row treats terminating endpoints; upstream has KEP-1669.
func mode(r row.Row) report.Mode {
	if r.Ignores() {
		return report.Ignore
	}
	return report.Fallback
}

// whileProvided runs f, and ends it if the load balancer's provider dies: what
// would be measured after that is not what is asked for.
func (r *runner) whileProvided(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-r.stage.LB().Died():
			cancel(r.stage.LB().Err())
		case <-done:
		}
	}()
	err := f(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return err
}

// world is what acts are done to.
func (r *runner) world() disrupt.World {
	w := disrupt.World{Cluster: r.stage.Cluster(), Client: r.client}
	w.Agents, _ = r.stage.(disrupt.Agents)
	w.Balancers, _ = r.stage.LB().(disrupt.Balancers)
	for _, n := range r.nodes {
		if n.NetNS == "" {
			w.NoNodes = "commands cannot be run in nodes of a cluster of the kind " + r.stage.Kind()
		}
	}
	return w
}

// environment is where the run takes place.
func (r *runner) environment() report.Environment {
	sys := host.ThisSystem()
	env := report.Environment{
		OS: sys.OS, Kernel: sys.Kernel, CPUs: sys.CPUs, MemoryMiB: sys.MemoryMiB, Nodes: r.all, Cluster: r.stage.Kind(),
	}
	if v, err := r.client.Discovery().ServerVersion(); err == nil {
		env.Kubernetes = v.GitVersion
	}
	env.IPFamily = "IPv4"
	if r.nodes[0].Addrs[0].Is6() {
		env.IPFamily = "IPv6"
	}
	if len(r.nodes[0].Addrs) > 1 {
		env.IPFamily = "dual stack"
	}
	return env
}
