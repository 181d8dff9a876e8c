package run

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/workload"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/tape"
	"github.com/plumbline/plumbline/suites/timeouts"
	"github.com/plumbline/plumbline/suites/verdict"
)

// maxInvalid is how many rollouts of a row may be thrown away, beyond as many
// as are wanted, before the row is given up.
const maxInvalid = 2

// restart is how long a load balancer's process that has ended may take to be there again: a second
// after its end at most, and its start (instance.Processes, and Docker's first wait).
const restart = 3 * time.Second

// play is one scenario on this run's stage.
type play struct {
	*runner
	scenario.Scenario
	params  scenario.Params
	app     workload.Spec
	sum     report.Scenario
	service *corev1.Service // made before the first row
	targets []target
}

// target is where a stream goes.
type target struct {
	tape.Stream
	addr netip.AddrPort
}

func newPlay(r *runner, n int, s scenario.Planned) *play {
	p := &play{runner: r, Scenario: s.Build(s.Params), params: s.Params}
	p.app = workload.Spec{
		Namespace: r.namespace(), Name: "echo", Image: r.stage.Echo(),
		Delay: s.Delay, PreStop: s.PreStop, Grace: s.GraceSeconds(), MinReady: s.MinReady, Unready: s.Unready,
	}
	if n > 0 { // each scenario has its own
		p.app.Name += "-" + s.Name
	}
	front := r.stage.LB().Front()
	p.sum = report.Scenario{
		Name: s.Name, Title: s.Title, Says: s.Says, Source: s.Source, Starts: p.Starts, Promises: p.Promises, Model: p.Model,
		Settings: report.Settings{
			Rate: s.Rate, Timeout: report.Duration(s.Timeout), Deadline: report.Duration(scenario.Deadline), Delay: report.Duration(s.Delay),
			PreStop: report.Duration(s.PreStop), Grace: report.Duration(s.GraceSeconds()), MinReady: report.Duration(s.MinReady), Hold: report.Duration(s.Hold),
			Unready: s.Unready, Seed: r.Seed, Rollouts: s.Rollouts, Budget: r.MaxLost,
			SYN:  kernelSYNs(front == OurLB && !r.stage.SharesAddress()),
			Pods: r.Background.Pods, Services: r.Background.Services, Timeouts: timeouts.Text(r.Timeouts),
		},
	}
	if p.Model != "" {
		p.sum.Latencies = r.stage.Latencies()
	}
	if p.Recovery == scenario.FirstChecks {
		lb := r.stage.LB().Profile()
		p.sum.Settings.Recovery = report.Duration(restart + time.Duration(lb.Rise+1)*time.Duration(max(lb.Interval, lb.Down)))
	}
	if p.Replicas > 1 {
		p.sum.Settings.Replicas = p.Replicas
	}
	if p.policy() != corev1.ServiceExternalTrafficPolicyLocal {
		p.sum.Settings.Policy = string(p.policy())
	}
	return p
}

// policy of the workload's Service: without a load balancer clients go to one node.
func (p *play) policy() corev1.ServiceExternalTrafficPolicy {
	if p.stage.LB().Front() == NoLB {
		return corev1.ServiceExternalTrafficPolicyCluster
	}
	return p.Policy
}

// lacks is why the scenario cannot be run on this stage; empty: it can.
func (p *play) lacks() string {
	if len(p.Needs) == 0 {
		return ""
	}
	w := p.world()
	for _, n := range p.Needs {
		if why := w.Lacks(n); why != "" {
			return fmt.Sprintf("scenario %s needs %s: %s", p.sum.Name, n, why)
		}
	}
	return ""
}

// rowOf is the n-th row of the run as this scenario's.
func (p *play) rowOf(n int, row report.Row) report.Row {
	row.Wanted, row.Records = p.params.Rollouts, recordsOf(n, row.Name)
	if len(p.plays) > 1 {
		row.Records = filepath.Join(row.Records, p.sum.Name)
	}
	return row
}

// row runs the scenario's rollouts on a dataplane that is installed. The workload is made for the
// first row.
func (p *play) row(ctx context.Context, n int, row report.Row) error {
	row = p.rowOf(n, row)
	if why := p.lacks(); why != "" {
		row.Unsupported = why
		p.log.Warn("scenario is not supported here", "dataplane", row.Name, "why", why)
		p.sum.Rows = append(p.sum.Rows, row)
		return nil
	}
	rows := []report.Row{row}
	err := p.whileProvided(ctx, func(ctx context.Context) error {
		if err := p.deploy(ctx); err != nil {
			return err
		}
		rows = p.perStream(row)
		return p.rollouts(ctx, rows, func(n int) ([]verdict.Rollout, error) {
			return p.trial(ctx, n, filepath.Join(p.dir, row.Records, rolloutDir(n)))
		})
	})
	if err != nil {
		p.log.Error("row ended early", "scenario", p.sum.Name, "dataplane", row.Name, "error", err)
	}
	for i := range rows {
		p.finish(&rows[i], err)
	}
	p.sum.Rows = append(p.sum.Rows, rows...)
	return err
}

// spoil has the n-th row end with an error of what came later.
func (p *play) spoil(n int, err error) {
	for i := range p.sum.Rows {
		if r := &p.sum.Rows[i]; strings.HasPrefix(r.Records, fmt.Sprintf("%02d-", n+1)) {
			r.Error = strings.TrimPrefix(r.Error+"\n"+err.Error(), "\n")
		}
	}
}

// perStream is the row for each stream that is judged.
func (p *play) perStream(out report.Row) []report.Row {
	var rows []report.Row
	for i, t := range p.targets {
		row := out
		if row.Stream = t.Name; i > 0 {
			row.Name += ", " + string(t.Family)
		}
		rows = append(rows, row)
	}
	return rows
}

// finish fills in what follows from all rollouts of a row.
func (p *play) finish(out *report.Row, err error) {
	if err != nil {
		out.Error = err.Error()
	}
	if len(out.Rollouts) > 0 && p.stage.LB().Front() == OurLB { // models are of its checks
		out.Predicted = predict(p.stage.LB().Profile(), p.sum, *out)
	}
	if p.Sequence && len(out.Rollouts) > 0 {
		out.Sequence = sequence(out.Rollouts[0].Series)
	}
}

// rollouts runs rollouts until as many as wanted may be counted, of every stream. One that the
// harness itself spoiled for any of them is kept, shown, and repeated, on a host that has had time
// to become quiet.
func (p *play) rollouts(ctx context.Context, rows []report.Row, try func(n int) ([]verdict.Rollout, error)) error {
	for n := 1; len(rows[0].Rollouts) < p.params.Rollouts; n++ {
		if p.began.IsZero() {
			p.began = time.Now()
		}
		p.log.Debug("recording", "scenario", p.sum.Name, "dataplane", rows[0].Name, "rollout", n)
		all, err := try(n)
		if err != nil {
			for i, v := range all { // what was seen until then
				rows[i].Invalid = append(rows[i].Invalid, v)
			}
			return fmt.Errorf("rollout %d: %w", n, err)
		}
		reasons := spoiled(all)
		if reasons == "" {
			p.done++
			p.inRow++
		}
		for i, v := range all {
			attrs := []any{"scenario", p.sum.Name, "dataplane", rows[i].Name, "rollout", n, "counted", min(len(rows[i].Rollouts)+1, p.params.Rollouts), "wanted", p.params.Rollouts, "sent", v.Sent, "lost", v.Lost,
				"reconstructed", math.Round(v.Reconstruction.Lost*10) / 10, "slow", v.Slow, "lateP99", v.Harness.Late.P99}
			if reasons != "" {
				rows[i].Invalid = append(rows[i].Invalid, v)
				p.log.Warn("rollout is invalid and will be repeated", append(attrs, "reasons", reasons)...)
				continue
			}
			rows[i].Rollouts = append(rows[i].Rollouts, v)
			p.log.Info("rollout", append(attrs, "left", p.left())...)
		}
		if n := len(rows[0].Invalid); n > p.params.Rollouts+maxInvalid {
			return fmt.Errorf("%d rollouts in all were invalid, the last: %s", n, reasons)
		}
		if reasons != "" {
			if err := p.stage.AwaitQuiet(ctx); err != nil {
				return err
			}
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

// lb is the load balancer of the workload's Service, which gives it its name in records.
func (p *play) lb() disrupt.LB {
	lb := disrupt.LB{Service: p.app.Namespace + "/" + p.app.Name}
	if p.service != nil {
		lb.UID = p.service.UID
	}
	return lb
}

func (p *play) settings(n int) verdict.Settings {
	lb := p.stage.LB().Profile()
	s := verdict.Settings{
		Rollout: n, Rate: p.params.Rate, Timeout: p.params.Timeout, Deadline: scenario.Deadline, SYN: p.sum.Settings.SYN,
		Unseen: p.stage.LB().Front() == ClusterLB, Starts: p.Starts,
	}
	s.But.Within = time.Duration(p.sum.Settings.Recovery)
	for _, promise := range p.Promises {
		s.But.Causes = append(s.But.Causes, promise.But...)
	}
	if p.stage.LB().Front() == OurLB {
		s.LB, s.Connect, s.Retries = p.lb().Service, time.Duration(lb.Connect), lb.Retries
		if known, err := profile.Parse(p.Profile); err == nil { // else how it checks is not known
			s.Rise = known.Risen()
		}
		s.Local = p.Policy == corev1.ServiceExternalTrafficPolicyLocal
		s.Cluster = !s.Local
		s.Ports = p.ports()
	}
	for _, node := range p.nodes {
		s.Nodes = append(s.Nodes, node.Name)
	}
	return s
}

// phase is a part of the balancer's check interval. The interval is divided among the rollouts that
// are wanted, each of which gets a part of it to itself, in an order that is drawn, and is put
// anywhere there: so phases are spread evenly, and are the same for all rows. Those of repeats
// are drawn from all of it.
func (p *play) phase(n int) time.Duration {
	wanted := max(1, p.params.Rollouts)
	order := rand.New(rand.NewPCG(p.Seed, 0)).Perm(wanted)
	within := rand.New(rand.NewPCG(p.Seed, uint64(n))).Float64()
	part := within
	if n <= wanted {
		part = (float64(order[n-1]) + within) / float64(wanted)
	}
	return time.Duration(part * float64(p.stage.LB().Profile().Interval))
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
