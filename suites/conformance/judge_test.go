package conformance

import (
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

// judge brings a cluster up, installs the dataplane, runs the chosen behaviours
// and writes the report. An error is the harness's.
func judge(ctx context.Context, chosen map[string]bool, seed int64) (err error) {
	log := opts.logger()
	began := time.Now()
	if err := opts.place("conformance"); err != nil {
		return err
	}
	dir := opts.stage.Dir
	st, err := stage.Open(ctx, opts.stage, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close(context.WithoutCancel(ctx))) }()
	row := opts.stage.Rows[0]
	version, remove, err := st.Install(ctx, row)
	if err != nil {
		return err
	}
	var list []kit.Behaviour
	for _, b := range registry.All() {
		if chosen[b.ID] {
			list = append(list, b)
		}
	}
	known, err := declaration(opts.dataplane)
	if err != nil {
		return err
	}
	if err := host.SCTP(ctx); err != nil {
		known = known.without("sctp", "this kernel has no SCTP sockets: "+err.Error())
	}
	rep, err := newReport(ctx, st, known, version, seed)
	if err != nil {
		return err
	}
	env, err := openEnv(ctx, st, known, filepath.Join(dir, "evidence"), seed, kit.Limit, log)
	if err == nil {
		env.Run(ctx, list, func(r kit.Result) {
			results[r.Behaviour.ID] = append(results[r.Behaviour.ID], r)
			rep.Tests = append(rep.Tests, test(r))
			log.Info("behaviour", "id", r.Behaviour.ID, "family", r.Family, "result", r.Result, "reason", r.Reason,
				"attempts", r.Attempts, "delay", r.Delay.Round(time.Millisecond), "took", r.Took.Round(time.Millisecond))
		})
		noise := env.Noise()
		rep.Environment.Zones = env.Zones()
		rep.Environment.Noise = &conformance.Noise{Attempts: noise.Attempts, Failures: noise.Failed, P99: conformance.Duration(noise.P99)}
		err = env.Close(context.WithoutCancel(ctx))
	}
	if ctx.Err() == nil {
		removed := remove(ctx)
		rep.Tests = append(rep.Tests, residue(removed))
		if !errors.Is(removed, cluster.ErrResidue) {
			err = errors.Join(err, removed)
		}
	}
	if err = errors.Join(err, ctx.Err()); err != nil {
		rep.Error = err.Error()
	}
	rep.Duration = conformance.Duration(time.Since(began).Round(time.Second))
	code, writeErr := write(dir, rep)
	status = code
	return errors.Join(err, writeErr)
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
	return kit.Open(ctx, st, kit.Config{
		Image: image, Families: families, Features: known.Unsupported, Flush: known.flush(), Dir: evidence, Parallel: opts.parallel, Seed: seed, Limit: limit, Log: log,
	})
}
