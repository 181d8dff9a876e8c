package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/existing"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
)

// Existing is a stage on a cluster that somebody else made. It makes namespaces and,
// for a row that says so, a dataplane's objects, all with its label, and, with our load
// balancer, HAProxy processes on this host; it takes away these, and nothing else.
type Existing struct {
	base
	cluster *existing.Cluster
	client  kubernetes.Interface
	applier *cluster.Applier
	agents  *cluster.Manifests
	control netip.AddrPort
}

var _ Stage = (*Existing)(nil)

// Foreign says what is known of an existing cluster.
type Foreign struct {
	Kubeconfig string // or existing.InCluster: the service account of the pod that this runs in
	LB         string // ours, cluster or none
	EchoImage  string // of the workload; the nodes have it or can pull it
	ProbeImage string // of plumb-probe, for conformance
	ProxyImage string // of plumb-proxy, for rows that install it
}

// loopbackLBs are the addresses of our load balancers for an existing cluster:
// on this host and reachable from it alone, so that nobody's network is touched.
const loopbackLBs = "127.77.0.0/24"

// OpenExisting prepares a cluster that is there. If it fails, nothing of ours stays.
func OpenExisting(ctx context.Context, o Options, log *slog.Logger) (*Existing, error) {
	if err := o.Foreign.check(o.Rows); err != nil {
		return nil, err
	}
	b, err := newBase(o, log)
	if err != nil {
		return nil, err
	}
	e := &Existing{base: b}
	return e, e.open(ctx, []step{
		{"cluster", e.openCluster},
		{"lock", e.lock},
		{"results", e.makeDir},
		{"namespaces", e.openNamespaces},
		{"control server", e.openControl},
		{"load balancer provider", e.openProvider},
	})
}

func (f Foreign) check(rows []scenario.Row) error {
	switch {
	case f.Kubeconfig == "":
		return errors.New("--cluster=existing needs --kubeconfig: a file, or in-cluster in a pod of the cluster")
	case f.Kubeconfig == existing.InCluster && f.LB == string(scenario.OurLB):
		return errors.New("--lb=ours needs a file as --kubeconfig")
	case f.EchoImage == "":
		return errors.New("--cluster=existing needs --echo-image: an image of plumb-echo that the nodes have or can pull")
	case f.LB != string(scenario.OurLB) && f.LB != string(scenario.ClusterLB) && f.LB != string(scenario.NoLB):
		return fmt.Errorf("unknown --lb %q; known: ours, cluster, none", f.LB)
	}
	for _, r := range rows {
		switch {
		case r.Own() && f.ProxyImage == "":
			return fmt.Errorf("row %s on an existing cluster needs --proxy-image: an image of plumb-proxy that the nodes have or can pull", r)
		case r.Dataplane == "kube-proxy":
			return fmt.Errorf("row %s: on an existing cluster kube-proxy is either there (row existing) or comes from a manifest (row manifest:FILE)", r)
		}
	}
	return nil
}

// settleFamily takes the cluster's IP family, where its Services have but one.
func (o *Options) settleFamily(ctx context.Context, log *slog.Logger) error {
	c, err := existing.Open(o.Foreign.Kubeconfig)
	if err != nil {
		return err
	}
	has, err := c.IPFamilies(ctx)
	if err != nil {
		log.Warn("the cluster does not say which IP families it has", "taken", o.IPFamily, "error", err)
		return nil
	}
	if len(has) != 1 || strings.EqualFold(string(has[0]), o.IPFamily) {
		return nil
	}
	log.Info("the cluster's Services have one IP family", "taken", has[0], "not", o.IPFamily)
	o.IPFamily = strings.ToLower(string(has[0]))
	return nil
}

func (e *Existing) openCluster(context.Context) (err error) {
	if e.cluster, err = existing.Open(e.opts.Foreign.Kubeconfig); err != nil {
		return err
	}
	if e.client, err = kubernetes.NewForConfig(e.cluster.RESTConfig()); err != nil {
		return err
	}
	if e.agents, err = cluster.NewManifests(e.cluster, e.opts.Foreign.EchoImage, e.log); err != nil {
		return err
	}
	e.applier, err = cluster.NewApplier(e.cluster.RESTConfig())
	return err
}

// openNamespaces removes what a run that was killed has left, and sees to it that
// this one leaves nothing.
func (e *Existing) openNamespaces(ctx context.Context) error {
	if err := e.removeNamespaces(ctx); err != nil {
		return err
	}
	if err := e.agents.Sweep(ctx); err != nil {
		return err
	}
	e.onClose(e.removeNamespaces)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plumbline-system", Labels: cluster.Ours()}}
	_, err := e.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	return err
}

// namespacesPatience is how long a cluster may take to empty a namespace.
const namespacesPatience = 3 * time.Minute

// removeNamespaces deletes the namespaces with our label and waits until they are gone.
func (e *Existing) removeNamespaces(ctx context.Context) error {
	list := func() (*corev1.NamespaceList, error) {
		return e.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: cluster.Label})
	}
	all, err := list()
	if err != nil {
		return fmt.Errorf("list our namespaces: %w", err)
	}
	for _, ns := range all.Items {
		if err := e.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, namespacesPatience, true, func(context.Context) (bool, error) {
		all, err := list()
		return err == nil && len(all.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait until our namespaces are gone: %w", err)
	}
	return nil
}

// controlPort is where a pod in a node's own network answers: no dataplane
// forwards for it.
const controlPort = 38080

func (e *Existing) openControl(ctx context.Context) error {
	nodes, err := e.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	n := nodes[len(nodes)-1]
	e.control = netip.AddrPortFrom(n.Addr4(), controlPort)
	manifest, err := cluster.ControlServer(n.Name, e.opts.Foreign.EchoImage, controlPort)
	if err != nil {
		return err
	}
	if err := e.applier.Apply(ctx, manifest); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		p, err := e.client.CoreV1().Pods("plumbline-system").Get(ctx, "control", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, nil
	})
	if err != nil {
		return fmt.Errorf("wait for pod plumbline-system/control (does node %s have image %s?): %w", n.Name, e.opts.Foreign.EchoImage, err)
	}
	return nil
}

func (e *Existing) openProvider(ctx context.Context) error {
	if e.opts.Foreign.LB != string(scenario.OurLB) {
		return nil
	}
	p, err := findPrograms(ctx, nil, e.log)
	if err != nil {
		return err
	}
	e.onClose(func(context.Context) error { return os.RemoveAll(e.lbDir()) })
	err = e.startProvider(p.own("plumb-lb"), "--instances=host", "--kubeconfig="+e.opts.Foreign.Kubeconfig, "--lb-range-v4="+loopbackLBs, "--namespace="+scenario.Namespace)
	if err == nil {
		e.onClose(e.removeNamespaces) // while the provider runs: it takes its finalizer off
	}
	return err
}

// awaited are agents whose pods are ready when they have started: nobody sees from
// within the nodes whether they forward.
type awaited struct{ *cluster.Manifests }

// Start starts them and waits for their pods.
func (a awaited) Start(ctx context.Context, d cluster.Dataplane) error {
	if err := a.Manifests.Start(ctx, d); err != nil {
		return err
	}
	return a.AwaitReady(ctx, d)
}

// removePatience is how long a cluster may take to remove a dataplane.
const removePatience = 5 * time.Minute

// Install leaves the cluster as it is for the row existing. Others it installs
// from manifests: own ones and the user's. What it installs is removed once, by the
// function that it returns or when the stage is closed.
func (e *Existing) Install(ctx context.Context, r scenario.Row) (string, func(context.Context) error, error) {
	if r.Dataplane == scenario.Existing {
		return "", func(context.Context) error { return nil }, nil
	}
	d, err := dataplane(r)
	if err != nil {
		return "", nil, err
	}
	d.Image = e.opts.Foreign.ProxyImage
	if d.PodSubnets, err = e.cluster.PodSubnets(ctx); err != nil {
		return "", nil, err
	}
	if e.installer == nil {
		if e.installer, err = cluster.NewInstaller(ctx, e.cluster, awaited{e.agents}, e.opts.Foreign.EchoImage, e.log); err != nil {
			return "", nil, err
		}
	}
	e.installed = d
	err = e.installer.Install(ctx, d)
	if err != nil && !errors.Is(err, cluster.ErrNotRemoved) {
		return "", nil, err
	}
	gone := false
	remove := func(ctx context.Context) error {
		if gone {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
		defer cancel()
		err := e.installer.Remove(ctx, d)
		gone = err == nil
		return err
	}
	e.onClose(remove)
	return d.Version, remove, err
}

// Kind is "existing".
func (e *Existing) Kind() string { return "existing" }

// Cluster is what a scenario runs on.
func (e *Existing) Cluster() cluster.Cluster { return e.cluster }

// Echo is the workload's image.
func (e *Existing) Echo() string { return e.opts.Foreign.EchoImage }

// Probe is the image of plumb-probe.
func (e *Existing) Probe(context.Context) (string, error) {
	if e.opts.Foreign.ProbeImage == "" {
		return "", errors.New("--cluster=existing needs --probe-image: an image of plumb-probe that the nodes have or can pull")
	}
	return e.opts.Foreign.ProbeImage, nil
}

// Control is a server that no dataplane forwards for.
func (e *Existing) Control() netip.AddrPort { return e.control }

// LB is the load balancer in front, of which nothing is known unless it is ours.
func (e *Existing) LB() scenario.LB {
	if e.opts.Foreign.LB == string(scenario.OurLB) {
		return e.base.LB()
	}
	return unknownLB{front: scenario.Front(e.opts.Foreign.LB)}
}

// unknownLB is one of which nothing is recorded, or none. Its other methods are
// not to be called (scenario.LB).
type unknownLB struct {
	scenario.LB
	front scenario.Front
}

// Front says which of the two it is.
func (u unknownLB) Front() scenario.Front { return u.front }

// Died is never closed.
func (unknownLB) Died() <-chan struct{} { return nil }

// Profile says that nothing is known.
func (u unknownLB) Profile() report.LB {
	if u.front == scenario.NoLB {
		return report.LB{Kind: "none (a node port, externalTrafficPolicy=Cluster)", Profile: "none"}
	}
	return report.LB{Kind: "the cluster's own", Profile: "unknown"}
}
