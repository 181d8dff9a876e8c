package conformance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
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
	r.Harness = conformance.Harness{Version: stage.Version()}
	r.Date, r.Seed = time.Now().UTC().Truncate(time.Second), seed
	r.Chosen, r.Of = chosen+1, len(registry.All())+1
	suite, _ := ginkgo.GinkgoConfiguration()
	r.Command = command(flag.CommandLine, suite, seed)
	r.Environment.Cluster = opts.stage.Cluster
	return r
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
