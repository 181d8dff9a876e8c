package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
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
	target  netip.AddrPort
}

// Run runs every row and returns what was measured. Files of records go below
// dir. An error is the harness's: the summary then holds what was done before.
func Run(ctx context.Context, s Scenario, stage Stage, dir string, log *slog.Logger) (report.Summary, error) {
	sum := report.Summary{
		Scenario: s.Name, Title: s.Title, Started: time.Now().UTC(), LB: stage.LB().Profile(),
		Settings: report.Settings{
			Rate: s.Rate, Timeout: s.Timeout, Deadline: hardDeadline, Delay: s.Delay, PreStop: s.PreStop, Grace: s.grace(),
			MinReady: s.MinReady, Unready: s.Unready, Seed: s.Seed, Rollouts: s.Rollouts, Nominal: s.Anecdote,
			SYN: kernelSYNs(stage.LB().Front()), Pods: s.Background.Pods, Services: s.Background.Services, Timeouts: timeouts.Text(s.Timeouts),
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
			sum.Rows, sum.Environment.UsedMiB = append(sum.Rows, done), r.used
			if !clean {
				err = fmt.Errorf("dataplane %s could not be removed; the rows after it are not run", done.Name)
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
// unless something of it is left: clean says that nothing is.
func (r *runner) row(ctx context.Context, n int, spec row.Row) (out report.Row, clean bool) {
	out = report.Row{
		Name: spec.String(), Dataplane: spec.Dataplane, Own: spec.Own(), Judged: spec.Judged(), Mode: mode(spec), NoLocal: spec.NoLocal, Wanted: r.Rollouts,
	}
	if spec.Dataplane == row.Upstream {
		out.NoLocal = "drop" // and cannot be told otherwise
	}
	r.log.Info("row", "dataplane", out.Name)
	version, remove, err := r.stage.Install(ctx, spec)
	if lacks, ok := errors.AsType[cluster.Unsupported](err); ok {
		out.Unsupported = lacks.Why
		r.log.Warn("dataplane is not supported here", "dataplane", out.Name, "why", lacks.Why)
		return out, true
	}
	if err != nil {
		out.Error = err.Error()
		r.log.Error("dataplane was not installed", "dataplane", out.Name, "error", err)
		return out, !errors.Is(err, cluster.ErrNotRemoved)
	}
	out.Version = version
	if s, ok := r.stage.(neighboured); ok {
		out.Beside = s.Beside()
	}
	err = r.whileProvided(ctx, func(ctx context.Context) error {
		if err := r.deploy(ctx); err != nil {
			return err
		}
		err := r.rollouts(ctx, n, &out)
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
		out.Error = err.Error()
		r.log.Error("row ended early", "dataplane", out.Name, "error", err)
	}
	if len(out.Rollouts) > 0 && r.stage.LB().Front() == OurLB { // the model is of its checks
		out.Predicted = predict(r.sum, out)
	}
	if r.Anecdote && len(out.Rollouts) > 0 {
		out.Sequence = sequence(out.Rollouts[0].Series)
	}
	return out, clean
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

// rollouts runs rollouts until as many as wanted may be counted. One that the
// harness itself spoiled is kept, shown, and repeated.
func (r *runner) rollouts(ctx context.Context, row int, out *report.Row) error {
	for n := 1; len(out.Rollouts) < r.Rollouts; n++ {
		r.log.Debug("recording", "dataplane", out.Name, "rollout", n)
		v, err := r.rollout(ctx, n, row, recordsOf(r.dir, row, *out, n))
		if err != nil {
			return fmt.Errorf("rollout %d: %w", n, err)
		}
		attrs := []any{"dataplane", out.Name, "rollout", n, "sent", v.Sent, "lost", v.Lost,
			"reconstructed", math.Round(v.Reconstruction.Lost*10) / 10, "slow", v.Slow, "lateP99", v.Harness.Late.P99}
		if !v.Valid {
			out.Invalid = append(out.Invalid, v)
			r.log.Warn("rollout is invalid and will be repeated", append(attrs, "reasons", strings.Join(v.Reasons, "; "))...)
			if len(out.Invalid) > r.Rollouts+maxInvalid {
				return fmt.Errorf("%d rollouts in all were invalid, the last: %s", len(out.Invalid), strings.Join(v.Reasons, "; "))
			}
			continue
		}
		out.Rollouts = append(out.Rollouts, v)
		r.log.Info("rollout", attrs...)
	}
	return nil
}

func (r *runner) settings(n int) verdict.Settings {
	lb := r.stage.LB().Profile()
	s := verdict.Settings{Rollout: n, Rate: r.Rate, Timeout: r.Timeout, Deadline: hardDeadline, SYN: r.sum.Settings.SYN}
	if r.stage.LB().Front() == OurLB {
		s.LB, s.Local, s.Connect, s.Retries = r.app.Namespace+"/"+r.app.Name, true, lb.Connect, lb.Retries
	}
	for _, node := range r.nodes {
		s.Nodes = append(s.Nodes, node.Name)
	}
	return s
}

// kernelSYNs is how SYNs to the nodes are sent again. A load balancer of ours has a network
// namespace of its own, which begins with the kernel's own values (tcp_sk_init in
// net/ipv4/tcp_ipv4.c); others send from this one.
func kernelSYNs(front Front) verdict.SYNs {
	linear, known := sysctl("tcp_syn_linear_timeouts")
	retries, _ := sysctl("tcp_syn_retries")
	switch {
	case front != OurLB:
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
