package conformance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/conformance/behaviours"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
	"github.com/plumbline/plumbline/suites/timeouts"
)

// newReport says what is tested, and how much of the catalogue; the removal is judged
// in every run.
func (o *Options) newReport(known Declared) conformance.Report {
	r := known.report()
	r.Implementation.Project = cmp.Or(r.Implementation.Project, o.Dataplane)
	r.Implementation.Mode = o.Stage.Rows[0].Mode
	r.Harness = harness()
	r.Date, r.Seed = time.Now().UTC().Truncate(time.Second), o.Seed
	r.Chosen, r.Of = len(o.Behaviours)+1, len(behaviours.All())+1
	r.Command = o.repeat
	r.Environment.Cluster = o.Stage.Cluster
	return r
}

func harness() conformance.Harness {
	return conformance.Harness{Version: version.String(), Commit: stage.Commit()}
}

// describe adds to the report where it is tested and what exactly was installed.
func (o *Options) describe(ctx context.Context, st stage.Stage, rep *conformance.Report) (err error) {
	if rep.Environment, err = o.environment(ctx, st); err != nil {
		return err
	}
	digests, err := st.Digests(ctx)
	if err != nil {
		return err
	}
	rep.Implementation.ConfigDigest, rep.Implementation.Images = digests.Config, digests.Images
	if s, ok := st.(interface{ Beside() []string }); ok {
		rep.Environment.Beside = s.Beside()
	}
	rep.Environment.NodeImage, err = st.NodeImage(ctx)
	return err
}

// environment says where it is tested. An existing cluster has its own kernels; all
// others have this host's.
func (o *Options) environment(ctx context.Context, st stage.Stage) (conformance.Environment, error) {
	e := conformance.Environment{Cluster: st.Kind(), IPFamily: o.Stage.IPFamily, LB: balancer(st.LB().Profile()), Timeouts: timeouts.Text(o.Timeouts), FollowWithin: conformance.Duration(o.FollowWithin)}
	nodes, err := st.Cluster().Nodes(ctx)
	if err != nil {
		return e, err
	}
	e.Nodes = len(nodes)
	client, err := kubernetes.NewForConfig(st.Cluster().RESTConfig())
	if err != nil {
		return e, fmt.Errorf("make API client: %w", err)
	}
	v, err := client.Discovery().ServerVersion()
	if err != nil {
		return e, fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	e.Kubernetes = v.GitVersion
	if e.Cluster == "lab" {
		e.ControlPlane, e.Lacks = o.Stage.ControlPlane, stage.Lacks()
	}
	if e.Cluster != "existing" {
		sys := host.ThisSystem()
		e.Kernel, e.OS, e.CPUs = sys.Kernel, sys.OS, sys.CPUs
		e.CNI = map[string]string{"kind": "plumb-cni", "lab": "routes of the lab"}[e.Cluster]
		return e, nil
	}
	all, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return e, fmt.Errorf("list the nodes: %w", err)
	}
	e.Kernel, e.OS = systems(all.Items)
	return e, nil
}

// systems are the kernels and operating systems that nodes say they have.
func systems(nodes []corev1.Node) (kernel, os string) {
	var kernels, oses []string
	for _, n := range nodes {
		kernels, oses = append(kernels, n.Status.NodeInfo.KernelVersion), append(oses, n.Status.NodeInfo.OSImage)
	}
	distinct := func(list []string) string {
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ", ")
	}
	return distinct(kernels), distinct(oses)
}

// balancer is ours as its profile configures it; of another nothing is known.
func balancer(lb report.LB) *conformance.LB {
	if lb.Interval == 0 {
		return nil
	}
	p, _ := profile.Parse(lb.Profile) // it has served under that name
	return &conformance.LB{
		Kind: "haproxy", Profile: lb.Profile, IPMode: "Proxy", Interval: conformance.Duration(lb.Interval),
		Timeout: conformance.Duration(p.Timeout), Fall: lb.Fall, Rise: lb.Rise,
		Path: lb.Path,
	}
}

// test is one result in the report's words.
func test(r kit.Result) conformance.Test {
	b := r.Behaviour
	t := conformance.Test{
		ID: b.ID, Title: b.Says, IPFamily: string(r.Family), Profile: string(b.Profile), Level: b.Level,
		Source: b.Sources(), Upstream: b.Upstream, Result: r.Result, Reason: r.Reason, Attempts: r.Attempts,
		Delay: conformance.Duration(r.Delay.Round(time.Microsecond)), Duration: conformance.Duration(r.Took.Round(time.Millisecond)),
	}
	t.Said = r.Said
	t.Sent, t.Came, t.Steps, t.Legend = r.Sent, r.Came, r.Steps, r.Legend
	if r.Result == kit.ResultFail || r.Result == kit.ResultInconclusive {
		for _, p := range b.Promises {
			t.Promised = append(t.Promised, fmt.Sprintf("%s: %s (%s)", p.Kind, p.Says(), p.Where))
		}
	}
	for _, s := range r.Streams {
		t.Streams = append(t.Streams, stream(s))
	}
	for _, f := range b.Features {
		t.Features = append(t.Features, string(f))
	}
	for _, path := range r.Evidence {
		t.Evidence = append(t.Evidence, filepath.ToSlash(filepath.Join("evidence", path)))
	}
	return t
}

func stream(s kit.Stream) conformance.Stream {
	micro := func(d time.Duration) conformance.Duration { return conformance.Duration(d.Round(time.Microsecond)) }
	out := conformance.Stream{
		Client: s.Client, Target: s.Target, Rate: s.Rate, Sent: s.Sent, Failed: s.Failed, P50: micro(s.P50), P99: micro(s.P99), Max: micro(s.Max),
	}
	for _, o := range s.Outages {
		out.Outages = append(out.Outages, conformance.Outage{Start: micro(o.Start), Length: micro(o.Length), Failed: o.Failed})
	}
	return out
}

// write completes the report, writes it and prints its table, which is in the log too.
func (o *Options) write(r conformance.Report) (conformance.Report, error) {
	r.Phases = o.phases.until(time.Now())
	r = conformance.Complete(r)
	if err := conformance.Write(o.Stage.Dir, r); err != nil {
		return r, err
	}
	out := io.MultiWriter(os.Stdout, &o.said)
	fmt.Fprintln(out)
	if err := conformance.Table(out, r); err != nil {
		return r, err
	}
	fmt.Printf("\nreport: %s\n", filepath.Join(o.Stage.Dir, conformance.HTMLFile))
	return r, nil
}
