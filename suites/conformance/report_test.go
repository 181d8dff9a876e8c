package conformance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
)

// newReport says what was tested, with what and where.
func newReport(ctx context.Context, st stage.Stage, known declared, version string, seed int64) (conformance.Report, error) {
	sys := host.ThisSystem()
	row := opts.stage.Rows[0]
	r := known.report()
	r.Implementation.Project = cmp.Or(r.Implementation.Project, opts.dataplane)
	r.Implementation.Version, r.Implementation.Mode = version, row.Mode
	r.Harness = conformance.Harness{Version: stage.Version()}
	r.Date, r.Seed = time.Now().UTC().Truncate(time.Second), seed
	r.Command = fmt.Sprintf("make conformance DATAPLANE=%s CLUSTER=%s CONFORMANCE='--ginkgo.seed=%d'", opts.dataplane, opts.stage.Cluster, seed)
	r.Environment = conformance.Environment{
		Cluster: st.Kind(), Kernel: sys.Kernel, OS: sys.OS, CPUs: sys.CPUs, IPFamily: opts.stage.IPFamily, LB: balancer(st.LB().Profile()),
	}
	nodes, err := st.Cluster().Nodes(ctx)
	if err != nil {
		return r, err
	}
	r.Environment.Nodes = len(nodes)
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

// balancer is ours as its profile configures it; of another nothing is known.
func balancer(lb report.LB) *conformance.LB {
	if lb.Interval == 0 {
		return nil
	}
	return &conformance.LB{
		Kind: "haproxy", Profile: lb.Profile, IPMode: "Proxy", Interval: conformance.Duration(lb.Interval),
		Timeout: conformance.Duration(haproxy.Profiles()[lb.Profile].CheckTimeout), Fall: lb.Fall, Rise: lb.Rise,
	}
}

// test is one result in the report's words.
func test(r kit.Result) conformance.Test {
	b := r.Behaviour
	t := conformance.Test{
		ID: b.ID, Title: b.Says, IPFamily: string(r.Family), Profile: string(b.Profile), Level: conformance.Level(b.Level),
		Source: b.Source, Upstream: b.Upstream, Result: conformance.Result(r.Result), Reason: r.Reason, Attempts: r.Attempts,
		Delay: conformance.Duration(r.Delay.Round(time.Microsecond)), Duration: conformance.Duration(r.Took.Round(time.Millisecond)),
	}
	t.Said = r.Said
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
