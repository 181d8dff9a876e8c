package conformance

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/suites/conformance/kit"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
)

// newReport says what is tested, and how much of the catalogue; the removal is judged
// in every run.
func newReport(known declared, chosen int, seed int64) conformance.Report {
	r := known.report()
	r.Implementation.Project = cmp.Or(r.Implementation.Project, opts.dataplane)
	r.Implementation.Mode = opts.stage.Rows[0].Mode
	r.Harness = harness()
	r.Date, r.Seed = time.Now().UTC().Truncate(time.Second), seed
	r.Chosen, r.Of = chosen+1, len(registry.All())+1
	suite, _ := ginkgo.GinkgoConfiguration()
	r.Command = command(flag.CommandLine, suite, seed)
	r.Environment.Cluster = opts.stage.Cluster
	return r
}

func harness() conformance.Harness {
	return conformance.Harness{Version: stage.Version(), Commit: stage.Commit()}
}

// timeline is what the run spent its time on: one phase after another, without gaps.
// It is not for concurrent use.
type timeline struct {
	began  time.Time // of the first phase
	phases []conformance.Phase
}

// next begins a phase, and ends the one before.
func (l *timeline) next(name string) { l.nextAt(time.Now(), name) }

func (l *timeline) nextAt(now time.Time, name string) {
	if len(l.phases) == 0 {
		l.began = now
	}
	l.phases = append(l.until(now), conformance.Phase{Name: name, Start: conformance.Duration(now.Sub(l.began).Round(time.Millisecond))})
}

// until are the phases so far, of which the last goes on.
func (l *timeline) until(now time.Time) []conformance.Phase {
	out := slices.Clone(l.phases)
	if n := len(out); n > 0 {
		out[n-1].Duration = conformance.Duration(now.Sub(l.began).Round(time.Millisecond)) - out[n-1].Start
	}
	return out
}

// describe adds to the report where it is tested and what exactly was installed.
func describe(ctx context.Context, st stage.Stage, rep *conformance.Report) (err error) {
	if rep.Environment, err = environment(ctx, st); err != nil {
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
func environment(ctx context.Context, st stage.Stage) (conformance.Environment, error) {
	e := conformance.Environment{Cluster: st.Kind(), IPFamily: opts.stage.IPFamily, LB: balancer(st.LB().Profile())}
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
		e.ControlPlane = opts.stage.ControlPlane
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

// command is the line that does it again, from the flags that were set. Files of this
// host go by their last names, and its results elsewhere.
func command(fs *flag.FlagSet, suite types.SuiteConfig, seed int64) string {
	args := []string{fmt.Sprintf("--ginkgo.seed=%d", seed)}
	for _, f := range suite.FocusStrings {
		args = append(args, "--ginkgo.focus="+f)
	}
	for _, f := range suite.SkipStrings {
		args = append(args, "--ginkgo.skip="+f)
	}
	if suite.LabelFilter != "" {
		args = append(args, "--ginkgo.label-filter="+suite.LabelFilter)
	}
	dataplane, cluster := "", ""
	fs.VisitAll(func(f *flag.Flag) {
		switch f.Name {
		case "dataplane":
			dataplane = f.Value.String()
		case "cluster":
			cluster = f.Value.String()
		}
	})
	fs.Visit(func(f *flag.Flag) {
		value := f.Value.String()
		switch name, _, _ := strings.Cut(f.Name, "."); name {
		case "ginkgo", "test", "dataplane", "cluster", "results", "sonobuoy", "update", "teeth", "teeth-table":
			return
		case "kubeconfig", "declaration":
			value = filepath.Base(value)
		}
		args = append(args, "--"+f.Name+"="+value)
	})
	if file, ok := strings.CutPrefix(dataplane, "manifest:"); ok {
		dataplane = "manifest:" + filepath.Base(file)
	}
	for i, a := range args {
		args[i] = quoted(a)
	}
	return fmt.Sprintf("make conformance DATAPLANE=%s CLUSTER=%s CONFORMANCE='%s'", quoted(dataplane), cluster, strings.Join(args, " "))
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=,@%+-]*$`) // const

// quoted is a word for a shell that make starts, as it stands between single quotes.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$$`, `'`, `'\''`).Replace(word) + `"`
}

// balancer is ours as its profile configures it; of another nothing is known.
func balancer(lb report.LB) *conformance.LB {
	if lb.Interval == 0 {
		return nil
	}
	return &conformance.LB{
		Kind: "haproxy", Profile: lb.Profile, IPMode: "Proxy", Interval: conformance.Duration(lb.Interval),
		Timeout: conformance.Duration(haproxy.Profiles()[lb.Profile].CheckTimeout), Fall: lb.Fall, Rise: lb.Rise,
		Path: lb.Path,
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

// keepResidue keeps what a removal has left, whole, as the evidence of its result.
func keepResidue(dir string, removed error, r *kit.Result) {
	left, ok := errors.AsType[*cluster.Residue](removed)
	if !ok || dir == "" {
		return
	}
	file := filepath.Join(r.Behaviour.ID, "left.txt")
	err := os.MkdirAll(filepath.Join(dir, "evidence", r.Behaviour.ID), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "evidence", file), []byte(left.Listing()), 0o644)
	}
	if err != nil {
		r.Said = append(r.Said, fmt.Sprintf("evidence was not kept: %v", err))
		return
	}
	r.Evidence = append(r.Evidence, file)
}

// write completes the report, writes it and prints its table, which is in the log too.
func write(dir string, r conformance.Report) (int, error) {
	r.Phases = phases.until(time.Now())
	if err := conformance.Write(dir, r); err != nil {
		return conformance.ExitUnjudged, err
	}
	out := io.MultiWriter(os.Stdout, &opts.said)
	fmt.Fprintln(out)
	if err := conformance.Table(out, r); err != nil {
		return conformance.ExitUnjudged, err
	}
	fmt.Printf("\nreport: %s\n", filepath.Join(dir, conformance.HTMLFile))
	return conformance.Complete(r).ExitCode, nil
}
