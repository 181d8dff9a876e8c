package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
)

// Limited bounds one run of the suite, and says so when it ends it.
func Limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("the suite did not end within %s", limit))
}

// judge brings a cluster up, installs the dataplane, asks for the behaviours and writes
// the report. An error is the harness's.
func (o *Options) judge(ctx context.Context) (rep conformance.Report, err error) {
	ctx, cancel := Limited(ctx, RunLimit)
	defer cancel()
	ctx, o.Stage.Lost = context.WithCancelCause(ctx)
	defer o.Stage.Lost(nil)
	log, began := o.Logger(), time.Now()
	known, err := o.Declared()
	if err != nil {
		return rep, err
	}
	if o.Stage.Cluster != "existing" { // whose nodes have kernels of their own: there the probes find out
		if err := host.SCTP(ctx); err != nil {
			known = known.without("sctp", "this kernel has no SCTP sockets: "+err.Error())
		}
	}
	if err := o.Place("conformance"); err != nil {
		return rep, err
	}
	o.phases.next("cluster up")
	st, err := stage.Open(ctx, o.Stage, log)
	if err != nil {
		return rep, errors.Join(err, context.Cause(ctx))
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	rep, err = o.onStage(ctx, st, known, log)
	if err != nil {
		rep.Error = err.Error()
	}
	rep.Duration = conformance.Duration(time.Since(began).Round(time.Second))
	rep, writeErr := o.write(rep)
	return rep, errors.Join(err, writeErr)
}

// onStage installs the dataplane, asks for behaviours and takes the dataplane away again,
// whatever came between. With an error the report is as far as it came.
func (o *Options) onStage(ctx context.Context, st stage.Stage, known Declared, log *slog.Logger) (rep conformance.Report, err error) {
	rep = o.newReport(known)
	o.phases.next("dataplane installed")
	version, remove, err := st.Install(ctx, o.Stage.Rows[0])
	if err != nil {
		return rep, errors.Join(err, context.Cause(ctx))
	}
	rep.Implementation.Version = cmp.Or(version, rep.Implementation.Version)
	err = o.observe(ctx, st, known, &rep, log)
	cut := context.Cause(ctx)
	o.phases.next("dataplane removed")
	removed := remove(context.WithoutCancel(ctx))
	if cut == nil { // what a behaviour that was cut off leaves is not the dataplane's
		rep.Tests = append(rep.Tests, o.residue(removed))
		if errors.Is(removed, cluster.ErrResidue) {
			removed = nil
		}
	}
	return rep, errors.Join(err, removed, cut)
}

// observe adds to the report where the run takes place and what it sees.
func (o *Options) observe(ctx context.Context, st stage.Stage, known Declared, rep *conformance.Report, log *slog.Logger) error {
	if err := o.describe(ctx, st, rep); err != nil {
		return err
	}
	o.phases.next("probes connected")
	env, err := o.OpenEnv(ctx, st, known, o.evidence(), o.FollowWithin)
	if err != nil {
		return err
	}
	o.phases.next("behaviours")
	env.Run(ctx, o.Behaviours, func(r kit.Result) {
		rep.Tests = append(rep.Tests, test(r))
		log.Info("behaviour", "n", len(rep.Tests), "of", env.Runs(o.Behaviours), "id", r.Behaviour.ID, "family", r.Family, "result", r.Result, "reason", r.Reason,
			"attempts", r.Attempts, "delay", r.Delay.Round(time.Millisecond), "took", r.Took.Round(time.Millisecond))
	})
	noise := env.Noise()
	rep.Environment.Zones = env.Zones()
	rep.Environment.Noise = &conformance.Noise{Attempts: noise.Attempts, Failures: noise.Failed, P99: conformance.Duration(noise.P99)}
	o.phases.next("probes removed")
	return env.Close(context.WithoutCancel(ctx))
}

// OpenEnv opens what behaviours work with; evidence is a directory, or empty: none is kept.
func (o *Options) OpenEnv(ctx context.Context, st stage.Stage, known Declared, evidence string, limit time.Duration) (*kit.Env, error) {
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
	}[o.Stage.IPFamily]
	ranges, err := o.Stage.Foreign.Ranges()
	if err != nil {
		return nil, err
	}
	return kit.Open(ctx, st, kit.Config{
		Image: image, Ranges: ranges, Families: families, Features: known.Unsupported, Health: known.Health, Flush: words(known.Flush), Evidence: words(known.Evidence), Dir: evidence, Parallel: o.SideBySide, Seed: o.Seed, Limit: limit,
		Timeouts: o.Timeouts, Log: o.Logger(),
	})
}
