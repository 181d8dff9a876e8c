package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
)

// newReport says what was tested, with what and where.
func newReport(ctx context.Context, st stage.Stage, known declared, version string, seed int64) (conformance.Report, error) {
	sys := host.ThisSystem()
	row := opts.stage.Rows[0]
	r := conformance.Report{
		Implementation: conformance.Implementation{Project: known.Project, URL: known.URL, Version: version, Mode: row.Mode},
		Harness:        conformance.Harness{Version: stage.Version()},
		Date:           time.Now().UTC().Truncate(time.Second), Seed: seed,
		Command: fmt.Sprintf("make conformance DATAPLANE=%s CLUSTER=%s CONFORMANCE='--ginkgo.seed=%d'", opts.dataplane, opts.stage.Cluster, seed),
		Environment: conformance.Environment{
			Cluster: st.Kind(), Kernel: sys.Kernel, OS: sys.OS, CPUs: sys.CPUs, IPFamily: opts.stage.IPFamily,
		},
	}
	if r.Implementation.Project == "" {
		r.Implementation.Project = opts.dataplane
	}
	for f, why := range known.Unsupported {
		r.Features = append(r.Features, conformance.Feature{Name: string(f), State: conformance.FeatureUnsupported, Reason: why})
	}
	slices.SortFunc(r.Features, func(a, b conformance.Feature) int { return strings.Compare(a.Name, b.Name) })
	nodes, err := st.Cluster().Nodes(ctx)
	if err != nil {
		return r, err
	}
	r.Environment.Nodes = len(nodes)
	if lb := st.LB().Profile(); lb.Interval > 0 {
		r.Environment.LB = &conformance.LB{
			Kind: "haproxy", Profile: lb.Profile, IPMode: "Proxy", Interval: conformance.Duration(lb.Interval), Fall: lb.Fall, Rise: lb.Rise,
		}
	}
	client, err := discovery.NewDiscoveryClientForConfig(st.Cluster().RESTConfig())
	if err != nil {
		return r, fmt.Errorf("make API client: %w", err)
	}
	v, err := client.ServerVersion()
	if err != nil {
		return r, fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	r.Environment.Kubernetes = v.GitVersion
	return r, nil
}

// test is one result in the report's words.
func test(r kit.Result) conformance.Test {
	b := r.Behaviour
	t := conformance.Test{
		ID: b.ID, Title: b.Says, IPFamily: string(r.Family), Profile: string(b.Profile), Level: conformance.Level(b.Level),
		Source: b.Source, Upstream: b.Upstream, Result: conformance.Result(r.Result), Reason: r.Reason, Attempts: r.Attempts,
		Delay: conformance.Duration(r.Delay.Round(time.Microsecond)), Duration: conformance.Duration(r.Took.Round(time.Millisecond)),
	}
	for _, f := range b.Features {
		t.Features = append(t.Features, string(f))
	}
	for _, path := range r.Evidence {
		t.Evidence = append(t.Evidence, filepath.ToSlash(filepath.Join("evidence", path)))
	}
	return t
}

// write completes the report, writes it and prints its table.
func write(dir string, r conformance.Report) (int, error) {
	if err := conformance.Write(dir, r); err != nil {
		return conformance.ExitUnjudged, err
	}
	fmt.Println()
	if err := conformance.Table(os.Stdout, r); err != nil {
		return conformance.ExitUnjudged, err
	}
	fmt.Printf("\nreport: %s\n", filepath.Join(dir, conformance.HTMLFile))
	return conformance.Complete(r).ExitCode, nil
}
