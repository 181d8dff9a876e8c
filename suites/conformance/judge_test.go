package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// dataplaneRow is the row of a dataplane's name: an own one as it is meant to be.
func dataplaneRow(name string) ([]scenario.Row, error) {
	if strings.HasPrefix(name, "plumb-") && !strings.Contains(name, ":") {
		name += ":fallback"
	}
	rows, err := scenario.ParseRows(name)
	if err == nil && len(rows) != 1 {
		err = fmt.Errorf("--dataplane %q: name one", name)
	}
	return rows, err
}

// limited bounds one run of the suite, and says so when it ends it.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the suite did not end within %s", limit))
}

// judge brings a cluster up, installs the dataplane, runs the chosen behaviours
// and writes the report. An error is the harness's.
func judge(ctx context.Context, chosen map[string]bool, seed int64) (err error) {
	ctx, cancel := limited(ctx, suiteLimit)
	defer cancel()
	ctx, opts.stage.Lost = context.WithCancelCause(ctx)
	defer opts.stage.Lost(nil)
	log, began := opts.logger(), time.Now()
	known, err := declaration(opts.dataplane, opts.declaration)
	if err != nil {
		return err
	}
	if opts.stage.Cluster != "existing" { // whose nodes have kernels of their own: there the probes find out
		if err := host.SCTP(ctx); err != nil {
			known = known.without("sctp", "this kernel has no SCTP sockets: "+err.Error())
		}
	}
	if err := opts.place("conformance"); err != nil {
		return err
	}
	phases.next("cluster up")
	st, err := stage.Open(ctx, opts.stage, log)
	if err != nil {
		return errors.Join(err, cutOff(ctx))
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	var list []kit.Behaviour
	for _, b := range registry.All() {
		if chosen[b.ID] {
			list = append(list, b)
		}
	}
	rep, err := onStage(ctx, st, known, list, seed, log)
	if err != nil {
		rep.Error = err.Error()
	}
	rep.Duration = conformance.Duration(time.Since(began).Round(time.Second))
	code, writeErr := write(opts.stage.Dir, rep)
	status = code
	return errors.Join(err, writeErr)
}

// cutOff says why a run was ended from outside, if it was.
func cutOff(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// onStage installs the dataplane, runs behaviours and takes the dataplane away again,
// whatever came between. With an error the report is as far as it came.
func onStage(ctx context.Context, st stage.Stage, known declared, list []kit.Behaviour, seed int64, log *slog.Logger) (rep conformance.Report, err error) {
	rep = newReport(known, len(list), seed)
	phases.next("dataplane installed")
	version, remove, err := st.Install(ctx, opts.stage.Rows[0])
	if err != nil {
		return rep, errors.Join(err, cutOff(ctx))
	}
	rep.Implementation.Version = cmp.Or(version, rep.Implementation.Version)
	err = observe(ctx, st, known, list, &rep, log)
	cut := cutOff(ctx)
	phases.next("dataplane removed")
	removed := remove(context.WithoutCancel(ctx))
	if cut == nil { // what a behaviour that was cut off leaves is not the dataplane's
		rep.Tests = append(rep.Tests, residue(removed))
		if errors.Is(removed, cluster.ErrResidue) {
			removed = nil
		}
	}
	return rep, errors.Join(err, removed, cut)
}

// observe adds to the report where the run takes place and what it sees.
func observe(ctx context.Context, st stage.Stage, known declared, list []kit.Behaviour, rep *conformance.Report, log *slog.Logger) error {
	if err := describe(ctx, st, rep); err != nil {
		return err
	}
	phases.next("probes connected")
	env, err := openEnv(ctx, st, known, filepath.Join(opts.stage.Dir, "evidence"), rep.Seed, kit.Limit, log)
	if err != nil {
		return err
	}
	phases.next("behaviours")
	env.Run(ctx, list, func(r kit.Result) {
		results[r.Behaviour.ID] = append(results[r.Behaviour.ID], r)
		rep.Tests = append(rep.Tests, test(r))
		log.Info("behaviour", "id", r.Behaviour.ID, "family", r.Family, "result", r.Result, "reason", r.Reason,
			"attempts", r.Attempts, "delay", r.Delay.Round(time.Millisecond), "took", r.Took.Round(time.Millisecond))
	})
	noise := env.Noise()
	rep.Environment.Zones = env.Zones()
	rep.Environment.Noise = &conformance.Noise{Attempts: noise.Attempts, Failures: noise.Failed, P99: conformance.Duration(noise.P99)}
	phases.next("probes removed")
	return env.Close(context.WithoutCancel(ctx))
}

// openEnv opens what behaviours work with; evidence is a directory, or empty: none is kept.
func openEnv(ctx context.Context, st stage.Stage, known declared, evidence string, seed int64, limit time.Duration, log *slog.Logger) (*kit.Env, error) {
	image, err := st.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if evidence != "" {
		if err := os.MkdirAll(evidence, 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of evidence: %w", err)
		}
	}
	families := map[string][]corev1.IPFamily{
		"ipv4": {corev1.IPv4Protocol}, "ipv6": {corev1.IPv6Protocol}, "dual": {corev1.IPv4Protocol, corev1.IPv6Protocol},
	}[opts.stage.IPFamily]
	ranges, err := opts.stage.Foreign.Ranges()
	if err != nil {
		return nil, err
	}
	return kit.Open(ctx, st, kit.Config{
		Image: image, Ranges: ranges, Families: families, Features: known.Unsupported, Flush: known.flush(), Dir: evidence, Parallel: opts.parallel, Seed: seed, Limit: limit, Log: log,
	})
}
