package selftest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/report/conformance"
	"github.com/plumbline/plumbline/suites/stage"
)

var _ = ginkgo.Describe("an existing cluster", ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
	var its *somebodys
	var kubeconfig, echo, probe, proxy string
	var client kubernetes.Interface

	ginkgo.BeforeAll(func(ctx ginkgo.SpecContext) {
		only("existing")
		var err error
		its, err = openSomebodys(ctx)
		// Not an AfterAll, which would come before what the last spec takes down.
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error { return its.close(ctx) })
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		kubeconfig, echo, probe, proxy, client = its.kubeconfig, its.echo, its.probe, its.proxy, its.client
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
			gomega.Expect(sum.Scenarios[0].Rows).To(gomega.HaveLen(1))
			gomega.Expect(sum.Scenarios[0].Rows[0].Rollouts).To(gomega.HaveLen(1))
			fmt.Printf("existing, --lb=%s: %d of %d lost\n", lb, sum.Scenarios[0].Rows[0].Lost(), sum.Scenarios[0].Rows[0].Sent())
			gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
			gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), "nor on this host")
		})
	}

	ginkgo.It("is measured by who is not root", func(ctx ginkgo.SpecContext) {
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		bin, err := program()
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		home, err := os.MkdirTemp("", "plumbline-user-")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(os.RemoveAll, home)
		const nobody = 65534
		for _, name := range []string{"plumbline", "kubeconfig"} { // the user reads neither where they are
			text, err := os.ReadFile(map[string]string{"plumbline": bin, "kubeconfig": kubeconfig}[name])
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			gomega.Expect(os.WriteFile(filepath.Join(home, name), text, 0o755)).To(gomega.Succeed())
			gomega.Expect(os.Chown(filepath.Join(home, name), nobody, nobody)).To(gomega.Succeed())
		}
		gomega.Expect(os.Chown(home, nobody, nobody)).To(gomega.Succeed())
		cmd := exec.CommandContext(ctx, filepath.Join(home, "plumbline"), "run", "--cluster=existing", "--kubeconfig="+filepath.Join(home, "kubeconfig"),
			"--rows=existing", "--lb=none", "--echo-image="+echo, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results="+filepath.Join(home, "results"))
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		gomega.Expect(err).NotTo(gomega.HaveOccurred(), string(out))
		gomega.Expect(filepath.Join(home, ".cache", "plumbline", host.RunsDir)).To(gomega.BeADirectory())
		gomega.Expect(files(filepath.Join(home, ".cache", "plumbline", host.RunsDir))).To(gomega.BeEmpty(), "its run has ended")
		gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
	})

	for _, what := range []struct{ name, rows, lb string }{
		{"as it is, with our load balancer", "existing", "ours"},
		{"with a dataplane of ours", "plumb-nftables:fallback", "none"},
	} {
		ginkgo.It("is measured "+what.name+" by an account that may do what is printed and no more", func(ctx ginkgo.SpecContext) {
			dir, err := os.MkdirTemp("", "plumbline-account-")
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			ginkgo.DeferCleanup(os.RemoveAll, dir)
			before, err := inventory(ctx, client)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			his, remove, err := account(ctx, client, kubeconfig, dir, "--rows="+what.rows, "--lb="+what.lb)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			defer func() {
				gomega.Expect(remove(ctx)).To(gomega.Succeed())
				gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
			}()
			gomega.Expect(plumbline(ctx, "run", "--cluster=existing", "--kubeconfig="+his, "--rows="+what.rows, "--lb="+what.lb, "--beside",
				"--proxy-image="+proxy, "--echo-image="+echo, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results="+dir)).To(gomega.Succeed())
		})
	}

	ginkgo.It("is asked for its Service semantics by an account that may do what is printed and no more", func(ctx ginkgo.SpecContext) {
		dir, err := os.MkdirTemp("", "plumbline-account-")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(os.RemoveAll, dir)
		his, remove, err := account(ctx, client, kubeconfig, dir, "--conformance")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		defer func() { gomega.Expect(remove(ctx)).To(gomega.Succeed()) }()
		semantics(ctx, his, echo, probe, "existing-account")
	})

	// Of what a manifest registers nothing stays, in an order in which it can go.
	ginkgo.It("is measured with a dataplane that registers things, and is as before", func(ctx ginkgo.SpecContext) {
		dir, err := os.MkdirTemp("", "plumbline-manifest-")
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(os.RemoveAll, dir)
		manifest := filepath.Join(dir, "registers.yaml")
		gomega.Expect(write(manifest, registering(echo))).To(gomega.Succeed())
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		args := []string{"run", "-v", "--cluster=existing", "--name=registers", "--kubeconfig=" + kubeconfig, "--rows=manifest:" + manifest, "--lb=none", "--beside",
			"--proxy-image=" + proxy, "--echo-image=" + echo, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results=" + filepath.Join(opts.results, "registers")}
		killed, err := begin(ctx, args...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(killed.await("msg=recording")).To(gomega.Succeed())
		registered, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(registered).To(gomega.ContainElement(gomega.ContainSubstring("things.example.com")))
		gomega.Expect(killed.cmd.Process.Kill()).To(gomega.Succeed())
		_ = killed.end()
		gomega.Expect(plumbline(ctx, args...)).To(gomega.Succeed(), "a run after the killed one, which removes what that left")
		gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
	})

	// Runs share nothing: one that is killed, again and again, costs the other no request and
	// no rollout, and blocks nobody. Its Services have the finalizer of our load balancer.
	ginkgo.It("is measured while another run on it is killed ten times", func(ctx ginkgo.SpecContext) {
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		run := func(name string, rollouts int) []string {
			return []string{"run", "-v", "--cluster=existing", "--name=" + name, "--kubeconfig=" + kubeconfig, "--rows=existing", "--lb=ours",
				"--echo-image=" + echo, fmt.Sprintf("--rollouts=%d", rollouts), "--delay=8s", "--profile=l4-fast", "--results=" + filepath.Join(opts.results, name)}
		}
		goesOn, err := begin(ctx, run("existing-on", 12)...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(goesOn.await("msg=recording")).To(gomega.Succeed())
		for n := range 10 {
			killed, err := begin(ctx, run("existing-off", 1)...)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
			at := []string{"msg=\"run begins\"", `name="load balancer provider"`, "msg=row", "msg=recording"}[n%4]
			gomega.Expect(killed.await(at)).To(gomega.Succeed())
			time.Sleep(rand.N(3 * time.Second)) // any moment after it
			gomega.Expect(killed.cmd.Process.Kill()).To(gomega.Succeed())
			_ = killed.end()
		}
		last := time.Now()
		gomega.Expect(goesOn.end()).To(gomega.Succeed())
		sum, err := report.Read(filepath.Join(opts.results, "existing-on", "latest", report.SummaryFile))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		fmt.Printf("existing, beside ten killed runs: %d of %d lost, %d rollouts invalid\n", sum.Scenarios[0].Rows[0].Lost(), sum.Scenarios[0].Rows[0].Sent(), len(sum.Scenarios[0].Rows[0].Invalid))
		gomega.Expect(sum.Finished).To(gomega.BeTemporally(">", last), "it lasts longer than the ten")
		gomega.Expect(sum.Scenarios[0].Rows[0].Lost()).To(gomega.BeZero())
		gomega.Expect(plumbline(ctx, run("existing-off", 1)...)).To(gomega.Succeed(), "a run after the killed ones")
		gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
		gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), "nor on this host")
	})

	// What is removed is what carries the id of a run that is dead, whatever else looks like it.
	ginkgo.It("is measured among things that look like ours, and they stay as they are", func(ctx ginkgo.SpecContext) {
		amongLookalikes(ctx, its)
	})

	// The guard stops nothing that is somebody else's, whose ranges are ours as well.
	ginkgo.It("loses nothing beside runs on kind", func(ctx ginkgo.SpecContext) {
		besideNeighbours(ctx, its)
	})

	// What needs the nodes themselves is left out, and said: so it cannot be called conformant.
	ginkgo.It("is asked for its Service semantics, and is as before", func(ctx ginkgo.SpecContext) {
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		semantics(ctx, kubeconfig, echo, probe, "existing-conformance")
		gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), "nothing of ours is left in the cluster")
		gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), "nor on this host")
	})

	// Two dataplanes would answer for each other: so a row is refused beside another's, and
	// with --beside it is judged by nobody.
	ginkgo.It("is given no dataplane beside its own, unless that is asked for", func(ctx ginkgo.SpecContext) {
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		asBefore := func(how string) {
			gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), how+": nothing of ours is left in the cluster")
			gomega.Expect(its.tables(ctx)).To(gomega.BeEmpty(), how+": nor in its nodes")
			gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), how+": nor on this host")
		}
		results := filepath.Join(opts.results, "existing-beside")
		run := []string{"run", "--cluster=existing", "--kubeconfig=" + kubeconfig, "--rows=plumb-nftables:fallback", "--lb=none",
			"--echo-image=" + echo, "--proxy-image=" + proxy, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results=" + results}
		gomega.Expect(plumbline(ctx, run...)).NotTo(gomega.Succeed())
		sum, err := report.Read(filepath.Join(results, "latest", report.SummaryFile))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(sum.ExitCode).To(gomega.Equal(report.ExitUnknown))
		for _, n := range its.nodes {
			gomega.Expect(sum.Scenarios[0].Rows[0].Error).To(gomega.ContainSubstring("node " + n.String() + ": kube-proxy: "))
		}
		asBefore("a row that is refused")
		gomega.Expect(plumbline(ctx, append(run, "--beside")...)).To(gomega.Succeed())
		sum, err = report.Read(filepath.Join(results, "latest", report.SummaryFile))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(sum.Scenarios[0].Rows[0].Rollouts).To(gomega.HaveLen(1))
		gomega.Expect(sum.Scenarios[0].Rows[0].Word).To(gomega.Equal(report.Info))
		gomega.Expect(strings.Join(sum.Scenarios[0].Rows[0].Beside, "\n")).To(gomega.And(
			gomega.ContainSubstring("kube-proxy: table ip kube-proxy"), gomega.ContainSubstring("kube-proxy: process kube-proxy"), gomega.ContainSubstring(":443 answers")))
		asBefore("a row beside another")
	})

	// From here on it has no kube-proxy of its own: two dataplanes would answer for each other.
	ginkgo.It("is given a dataplane, and is as before however the run ends", func(ctx ginkgo.SpecContext) {
		gomega.Expect(its.removeKubeProxy(ctx)).To(gomega.Succeed())
		before, err := inventory(ctx, client)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		results := filepath.Join(opts.results, "existing-installed")
		run := []string{"run", "-v", "--cluster=existing", "--kubeconfig=" + kubeconfig, "--rows=plumb-nftables:fallback", "--lb=none",
			"--echo-image=" + echo, "--proxy-image=" + proxy, "--rollouts=1", "--delay=8s", "--profile=l4-fast", "--results=" + results}
		asBefore := func(how string) {
			gomega.Expect(inventory(ctx, client)).To(gomega.Equal(before), how+": nothing of ours is left in the cluster")
			gomega.Expect(its.tables(ctx)).To(gomega.BeEmpty(), how+": nor in its nodes")
			gomega.Expect(onHost(ctx)).To(gomega.BeEmpty(), how+": nor on this host")
		}
		gomega.Expect(endAt(ctx, "msg=recording", syscall.SIGINT, run...)).To(gomega.Equal(2))
		asBefore("after an interrupt")
		gomega.Expect(endAt(ctx, "msg=recording", syscall.SIGKILL, run...)).To(gomega.Equal(-1))
		gomega.Expect(its.tables(ctx)).NotTo(gomega.BeEmpty(), "a run that was killed leaves its dataplane")
		gomega.Expect(plumbline(ctx, run...)).To(gomega.Succeed())
		asBefore("after the run that followed a killed one")
		sum, err := report.Read(filepath.Join(results, "latest", report.SummaryFile))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(sum.Scenarios[0].Rows).To(gomega.HaveLen(1))
		gomega.Expect(sum.Scenarios[0].Rows[0].Rollouts).To(gomega.HaveLen(1))
	})
})

// semantics asks an existing cluster for its Service semantics. What needs the nodes
// themselves is left out, most does not, and all of that passes.
func semantics(ctx context.Context, kubeconfig, echo, probe, name string) {
	results := filepath.Join(opts.results, name)
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
	fmt.Printf("%s: %v\n", name, n)
	gomega.Expect(n[conformance.Pass]).To(gomega.BeNumerically(">", n[conformance.Skip]), "most of it needs no node")
}

// conformanceSuite runs the suite to its end.
func conformanceSuite(ctx context.Context, args ...string) (out string, code int) {
	root, err := stage.SourceRoot()
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	program := filepath.Join(root, "bin", "plumbline")
	gomega.Expect(program).To(gomega.BeAnExistingFile(), "run make build")
	text, err := exec.CommandContext(ctx, program, append([]string{"conformance"}, args...)...).CombinedOutput()
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

// inventory lists what a run might leave, take away or change in a cluster.
func inventory(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	out, err := namespaces(ctx, client)
	if err != nil {
		return nil, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		out = append(out, fmt.Sprint("node ", n.Name, n.Labels, n.Annotations, n.Spec))
	}
	all := metav1.ListOptions{}
	registered, err := registrations(ctx, client)
	if err != nil {
		return nil, err
	}
	out = append(out, registered...)
	for kind, list := range map[string]func() (runtime.Object, error){
		"pod":                func() (runtime.Object, error) { return client.CoreV1().Pods("").List(ctx, all) },
		"service":            func() (runtime.Object, error) { return client.CoreV1().Services("").List(ctx, all) },
		"daemonset":          func() (runtime.Object, error) { return client.AppsV1().DaemonSets("").List(ctx, all) },
		"lease":              func() (runtime.Object, error) { return client.CoordinationV1().Leases("").List(ctx, all) },
		"configmap":          func() (runtime.Object, error) { return client.CoreV1().ConfigMaps("").List(ctx, all) },
		"serviceaccount":     func() (runtime.Object, error) { return client.CoreV1().ServiceAccounts("").List(ctx, all) },
		"role":               func() (runtime.Object, error) { return client.RbacV1().Roles("").List(ctx, all) },
		"rolebinding":        func() (runtime.Object, error) { return client.RbacV1().RoleBindings("").List(ctx, all) },
		"clusterrole":        func() (runtime.Object, error) { return client.RbacV1().ClusterRoles().List(ctx, all) },
		"clusterrolebinding": func() (runtime.Object, error) { return client.RbacV1().ClusterRoleBindings().List(ctx, all) },
	} {
		objects, err := list()
		if err != nil {
			return nil, err
		}
		err = meta.EachListItem(objects, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				out = append(out, fmt.Sprint(kind, " ", m.GetNamespace(), "/", m.GetName(), m.GetLabels(), m.GetGeneration()))
			}
			return err
		})
		if err != nil {
			return nil, err
		}
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
		if strings.Contains(line, stage.StateDir+"/runs/existing") || strings.Contains(line, "--cluster-name=existing") {
			out = append(out, line)
		}
	}
	return append(out, files(filepath.Join(stage.StateDir, host.RunsDir))...)
}
