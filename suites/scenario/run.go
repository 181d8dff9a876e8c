package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/timeouts"
	"github.com/plumbline/plumbline/suites/verdict"
)

// hardDeadline ends an attempt; it is classified at Scenario.Timeout later.
const hardDeadline = 10 * time.Second

// maxInvalid is how many rollouts of a row may be thrown away, beyond as many
// as are wanted, before the row is given up.
const maxInvalid = 2

// runner runs one scenario.
type runner struct {
	Scenario
	stage   Stage
	client  kubernetes.Interface
	all     int            // nodes of the cluster
	nodes   []cluster.Node // workers: what the load balancer may send to
	app     workload.Spec
	dir     string
	used    int // most memory in use for the cluster at the end of a row, MiB
	log     *slog.Logger
	sum     report.Summary // what is known before the first row
	service *corev1.Service
	targets []target
}

// target is where a stream goes.
type target struct {
	tape.Stream
	addr netip.AddrPort
}

// Run runs every row and returns what was measured. Files of records go below
// dir. An error is the harness's: the summary then holds what was done before.
func Run(ctx context.Context, s Scenario, stage Stage, dir string, log *slog.Logger) (report.Summary, error) {
	sum := report.Summary{
		Scenario: s.Name, Title: s.Title, Started: time.Now().UTC(), LB: stage.LB().Profile(),
		Settings: report.Settings{
			Rate: s.Rate, Timeout: s.Timeout, Deadline: hardDeadline, Delay: s.Delay, PreStop: s.PreStop, Grace: s.grace(),
			MinReady: s.MinReady, Unready: s.Unready, Seed: s.Seed, Rollouts: s.Rollouts, Nominal: s.Anecdote, Budget: s.MaxLost,
			SYN: kernelSYNs(stage.LB().Front() == OurLB && !stage.SharesAddress()), Pods: s.Background.Pods, Services: s.Background.Services, Timeouts: timeouts.Text(s.Timeouts),
		},
	}
	r := &runner{Scenario: s, stage: stage, dir: dir, log: log, sum: sum}
	err := r.prepare(ctx)
	if err == nil {
		sum.Environment = r.environment()
		for n, row := range s.Rows {
			if ctx.Err() != nil {
				break
			}
			done, clean := r.row(ctx, n, row)
			sum.Rows, sum.Environment.UsedMiB = append(sum.Rows, done...), r.used
			if !clean {
				err = fmt.Errorf("dataplane %s could not be removed; the rows after it are not run", done[0].Name)
				break
			}
		}
		err = errors.Join(err, ctx.Err())
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
		return fmt.Errorf("the scenario needs 2 workers, the cluster has %d", len(r.nodes))
	}
	r.app = workload.Spec{
		Namespace: r.stage.Run().Namespace("test"), Name: "echo", Image: r.stage.Echo(),
		Delay: r.Delay, PreStop: r.PreStop, Grace: r.grace(), MinReady: r.MinReady, Unready: r.Unready,
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.app.Namespace, Labels: r.stage.Run().Labels()}}
	if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make namespace %s: %w", ns.Name, err)
	}
	return r.fill(ctx)
}

// neighboured is a stage where others may proxy Services beside a row's dataplane.
type neighboured interface{ Beside() []string }

// row installs a dataplane, deploys the workload if it is the first, runs the
// rollouts and removes the dataplane. Its failure is the row's, not the run's,
// unless something of it is left: clean says that nothing is. In a cluster of two IP families
// there is a row for each.
func (r *runner) row(ctx context.Context, n int, spec row.Row) (rows []report.Row, clean bool) {
	out := report.Row{
		Name: spec.String(), Dataplane: spec.Dataplane, Own: spec.Own(), Judged: spec.Judged(), Mode: mode(spec), NoLocal: spec.NoLocal, Wanted: r.Rollouts,
	}
	out.Records = recordsOf(n, out.Name)
	if spec.Dataplane == row.Upstream {
		out.NoLocal = "drop" // and cannot be told otherwise
	}
	r.log.Info("row", "dataplane", out.Name)
	version, remove, err := r.stage.Install(ctx, spec)
	if lacks, ok := errors.AsType[cluster.Unsupported](err); ok {
		out.Unsupported = lacks.Why
		r.log.Warn("dataplane is not supported here", "dataplane", out.Name, "why", lacks.Why)
		return []report.Row{out}, true
	}
	if err != nil {
		out.Error = err.Error()
		r.log.Error("dataplane was not installed", "dataplane", out.Name, "error", err)
		return []report.Row{out}, !errors.Is(err, cluster.ErrNotRemoved)
	}
	out.Version = version
	if s, ok := r.stage.(neighboured); ok {
		out.Beside = s.Beside()
	}
	rows = []report.Row{out}
	err = r.whileProvided(ctx, func(ctx context.Context) error {
		if err := r.deploy(ctx); err != nil {
			return err
		}
		rows = r.perStream(out)
		err := r.rollouts(ctx, n, rows)
		r.used = max(r.used, r.stage.UsedMiB())
		return err
	})
	// An interrupted run closes its stage next, and with it goes the dataplane.
	clean = true
	if ctx.Err() == nil {
		removeErr := remove(ctx)
		clean, err = removeErr == nil, errors.Join(err, removeErr)
	}
	if err != nil {
		r.log.Error("row ended early", "dataplane", out.Name, "error", err)
	}
	for i := range rows {
		r.finish(&rows[i], err)
	}
	return rows, clean
}

// perStream is the row for each stream that is judged.
func (r *runner) perStream(out report.Row) []report.Row {
	var rows []report.Row
	for i, t := range r.targets {
		row := out
		if row.Stream = t.Name; i > 0 {
			row.Name += ", " + string(t.Family)
		}
		rows = append(rows, row)
	}
	return rows
}

// finish fills in what follows from all rollouts of a row.
func (r *runner) finish(out *report.Row, err error) {
	if err != nil {
		out.Error = err.Error()
	}
	if len(out.Rollouts) > 0 && r.stage.LB().Front() == OurLB { // the model is of its checks
		out.Predicted = predict(r.sum, *out)
	}
	if r.Anecdote && len(out.Rollouts) > 0 {
		out.Sequence = sequence(out.Rollouts[0].Series)
	}
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

// rollouts runs rollouts until as many as wanted may be counted, of every stream. One that the
// harness itself spoiled for any of them is kept, shown, and repeated.
func (r *runner) rollouts(ctx context.Context, row int, rows []report.Row) error {
	for n := 1; len(rows[0].Rollouts) < r.Rollouts; n++ {
		r.log.Debug("recording", "dataplane", rows[0].Name, "rollout", n)
		all, err := r.rollout(ctx, n, row, filepath.Join(r.dir, rows[0].Records, rolloutDir(n)))
		if err != nil {
			return fmt.Errorf("rollout %d: %w", n, err)
		}
		reasons := spoiled(all)
		for i, v := range all {
			attrs := []any{"dataplane", rows[i].Name, "rollout", n, "sent", v.Sent, "lost", v.Lost,
				"reconstructed", math.Round(v.Reconstruction.Lost*10) / 10, "slow", v.Slow, "lateP99", v.Harness.Late.P99}
			if reasons != "" {
				rows[i].Invalid = append(rows[i].Invalid, v)
				r.log.Warn("rollout is invalid and will be repeated", append(attrs, "reasons", reasons)...)
				continue
			}
			rows[i].Rollouts = append(rows[i].Rollouts, v)
			r.log.Info("rollout", attrs...)
		}
		if n := len(rows[0].Invalid); n > r.Rollouts+maxInvalid {
			return fmt.Errorf("%d rollouts in all were invalid, the last: %s", n, reasons)
		}
	}
	return nil
}

// spoiled is why a rollout does not count, for any of its streams; those that it would count
// for are told the reason too.
func spoiled(all []verdict.Rollout) string {
	var reasons []string
	for _, v := range all {
		for _, why := range v.Reasons {
			if !slices.Contains(reasons, why) {
				reasons = append(reasons, why)
			}
		}
	}
	for i := range all {
		if all[i].Valid && len(reasons) > 0 {
			all[i].Valid, all[i].Reasons = false, []string{"it does not count for the other IP family: " + strings.Join(reasons, "; ")}
		}
	}
	return strings.Join(reasons, "; ")
}

// lbName is the load balancer's in records: its Service's.
func (r *runner) lbName() string { return r.app.Namespace + "/" + r.app.Name }

func (r *runner) settings(n int) verdict.Settings {
	lb := r.stage.LB().Profile()
	s := verdict.Settings{Rollout: n, Rate: r.Rate, Timeout: r.Timeout, Deadline: hardDeadline, SYN: r.sum.Settings.SYN, Unseen: r.stage.LB().Front() == ClusterLB}
	if r.stage.LB().Front() == OurLB {
		s.LB, s.Local, s.Connect, s.Retries = r.lbName(), true, lb.Connect, lb.Retries
		s.Ports = r.ports()
	}
	for _, node := range r.nodes {
		s.Nodes = append(s.Nodes, node.Name)
	}
	return s
}

// kernelSYNs is how SYNs to the nodes are sent again. A network namespace of the load
// balancer's own begins with the kernel's own values (tcp_sk_init in net/ipv4/tcp_ipv4.c);
// without one it sends from this one.
func kernelSYNs(ownNamespace bool) verdict.SYNs {
	linear, known := sysctl("tcp_syn_linear_timeouts")
	retries, _ := sysctl("tcp_syn_retries")
	switch {
	case !ownNamespace:
		return verdict.SYNs{Linear: linear, Retries: retries}
	case known:
		return verdict.SYNs{Linear: 4, Retries: 6}
	}
	return verdict.SYNs{Retries: 6}
}

// sysctl is a number below net.ipv4; known says that this kernel has it.
func sysctl(name string) (n int, known bool) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		return 0, false
	}
	n, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err == nil
}
