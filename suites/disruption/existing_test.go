package disruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/scenario"
	"github.com/plumbline/plumbline/suites/stage"
)

// foreign is a kind cluster that is treated as somebody else's: with a kube-proxy
// of its own, and known by its kubeconfig alone.
const foreign = "plumbline-foreign"

// Selected by --ginkgo.label-filter=existing.
var _ = ginkgo.Describe("an existing cluster", ginkgo.Ordered, ginkgo.Label("existing"), func() {
	var kubeconfig, echo, probe string
	var client kubernetes.Interface

	ginkgo.BeforeAll(func(ctx ginkgo.SpecContext) {
		if os.Getenv("PLUMBLINE_E2E") != "1" {
			ginkgo.Skip("needs a host prepared for kind (make e2e)")
		}
		rows, err := scenario.ParseRows("kube-proxy:nftables")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		k, err := stage.OpenKind(ctx, stage.Options{
			Name: foreign, IPFamily: "ipv4", Workers: 4, Profile: "l4-fast", Rows: rows, Dir: filepath.Join(opts.results, "foreign"), Keep: true,
		}, os.Stderr, slog.Default())
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "make the cluster")
		_, _, err = k.Install(ctx, rows[0])
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), "install its kube-proxy")
		kubeconfig, echo = k.Kubeconfig(), k.Echo()
		probe, err = k.Probe(ctx)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(k.Cluster().Load(ctx, probe)).To(gomega.Succeed())
		client, err = kubernetes.NewForConfig(k.Cluster().RESTConfig())
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(k.Close(ctx)).To(gomega.Succeed())
		// The witness of the harness is no part of somebody's cluster.
		gomega.Expect(client.CoreV1().Namespaces().Delete(ctx, "plumbline-system", metav1.DeleteOptions{})).To(gomega.Succeed())
		gomega.Eventually(ctx, func() ([]string, error) { return namespaces(ctx, client) }).WithTimeout(takeDown).
			ShouldNot(gomega.ContainElement("plumbline-system"))
	})
	ginkgo.AfterAll(func(ctx ginkgo.SpecContext) {
		if kubeconfig != "" {
			gomega.Expect(plumbline(ctx, "cluster", "down", foreign)).To(gomega.Succeed())
		}
	})

	for _, lb := range []string{"ours", "none"} {
		ginkgo.It("is measured with --lb="+lb+", and is as before", func(ctx ginkgo.SpecContext) {
			before, err := inventory(ctx, client)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			results := filepath.Join(opts.results, "existing-"+lb)
			gomega.Expect(plumbline(ctx, "run", "--cluster=existing", "--kubeconfig="+kubeconfig, "--rows=existing", "--lb="+lb,
				"--echo-image="+echo, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results="+results)).To(gomega.Succeed())
			sum, err := report.Read(filepath.Join(results, "latest", report.SummaryFile))
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			gomega.Expect(sum.Rows).To(gomega.HaveLen(1))
			gomega.Expect(sum.Rows[0].Rollouts).To(gomega.HaveLen(1))
			fmt.Printf("existing, --lb=%s: %d of %d lost\n", lb, sum.Rows[0].Lost(), sum.Rows[0].Sent())
			gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
			gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), "nor on this host")
		})
	}

	// What needs the nodes themselves is left out, and said: so it cannot be called conformant.
	ginkgo.It("is asked for its Service semantics, and is as before", func(ctx ginkgo.SpecContext) {
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		results := filepath.Join(opts.results, "existing-conformance")
		out, code := conformanceSuite(ctx, "--cluster=existing", "--dataplane=existing", "--ip-family=ipv4", "--kubeconfig="+kubeconfig,
			"--echo-image="+echo, "--probe-image="+probe, "--results="+results)
		gomega.Expect(code).To(gomega.Equal(conformance.ExitUnjudged), out)
		found, err := filepath.Glob(filepath.Join(results, "*", conformance.JSONFile))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(found).NotTo(gomega.BeEmpty(), out)
		rep, err := conformance.Read(slices.Max(found)) // their names begin with the time
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		n := map[conformance.Result]int{}
		for _, t := range rep.Tests {
			if n[t.Result]++; t.Result != conformance.Pass {
				gomega.Expect(t.Reason).NotTo(gomega.BeEmpty(), t.Key())
			}
			if t.Level == conformance.Must {
				gomega.Expect(t.Result).To(gomega.BeElementOf(conformance.Pass, conformance.Skip, conformance.Unsupported), "%s: %s", t.Key(), t.Reason)
			}
		}
		fmt.Printf("existing, conformance: %v\n", n)
		gomega.Expect(n[conformance.Pass]).To(gomega.BeNumerically(">", n[conformance.Skip]), "most of it needs no node")
		gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
		gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), "nor on this host")
	})
})

// conformanceSuite runs the suite to its end.
func conformanceSuite(ctx context.Context, args ...string) (out string, code int) {
	root, err := stage.SourceRoot()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "conformance.test"), append([]string{"--ginkgo.v=false"}, args...)...)
	cmd.Env = append(os.Environ(), "PLUMBLINE_CONFORMANCE=1")
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(text), exit.ExitCode()
	}
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text), 0
}

func namespaces(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	var out []string
	for _, ns := range list.Items {
		out = append(out, ns.Name)
	}
	return out, err
}

// inventory lists what a run might leave or take away in a cluster.
func inventory(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	out, err := namespaces(ctx, client)
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		out = append(out, "pod "+p.Namespace+"/"+p.Name)
	}
	services, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range services.Items {
		out = append(out, "service "+s.Namespace+"/"+s.Name)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		out = append(out, fmt.Sprint("node ", n.Name, n.Labels, n.Annotations, n.Spec))
	}
	slices.Sort(out)
	return out, nil
}

// onHost lists processes and files of our load balancers for existing clusters.
func onHost(ctx context.Context) []string {
	text, err := exec.CommandContext(ctx, "ps", "-eo", "args").Output()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	var out []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, stage.StateDir+"/lb/existing") || strings.Contains(line, "--cluster-name=existing") {
			out = append(out, line)
		}
	}
	return append(out, files(filepath.Join(stage.StateDir, "lb", "existing"))...)
}
