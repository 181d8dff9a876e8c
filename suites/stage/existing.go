package stage

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/existing"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Existing is a stage on a cluster that somebody else made. It makes namespaces and,
// for a row that says so, a dataplane's objects, all with its run's id, and, with our load
// balancer, HAProxy processes on this host; it takes away these, and nothing else. Others
// may run beside it, from this host or another.
type Existing struct {
	base
	cluster *existing.Cluster
	run     *existing.Run
	client  kubernetes.Interface
	applier *cluster.Applier
	agents  *cluster.Manifests
	control netip.AddrPort
	beside  []string // who else proxies Services, when a row was installed
}

var _ Stage = (*Existing)(nil)

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
		{"results", e.makeDir},
		{"run", e.openRun},
		{"control server", e.openControl},
		{"load balancer provider", e.openProvider},
	})
}

func (e *Existing) openCluster(context.Context) (err error) {
	if e.cluster, err = existing.Open(e.opts.Foreign.Kubeconfig); err != nil {
		return err
	}
	if e.client, err = kubernetes.NewForConfig(e.cluster.RESTConfig()); err != nil {
		return err
	}
	if e.agents, err = cluster.NewManifests(e.cluster, e.Run(), e.opts.Foreign.EchoImage, e.log); err != nil {
		return err
	}
	e.applier, err = cluster.NewApplier(e.cluster.RESTConfig(), e.Run())
	return err
}

// openRun removes what runs that were killed have left in the cluster, and makes this one
// known there. Whatever happens, it leaves nothing.
func (e *Existing) openRun(ctx context.Context) (err error) {
	if err := e.opts.run.Private(); err != nil {
		return err
	}
	err = e.cluster.RemoveDead(ctx, e.opts.dead, func(id cluster.Run) {
		e.log.Info("removing what an earlier run left in the cluster", "run", id)
	})
	if err != nil {
		return err
	}
	if e.run, err = e.cluster.Begin(ctx, e.Run(), e.opts.fail); err != nil {
		return err
	}
	e.onClose(e.run.End)
	e.log.Info("run begins", "run", e.run.Run)
	e.agents.Noting(e.run)
	return nil
}

// controlPort is where a pod in a node's own network answers, or at one of the next few:
// no dataplane forwards for it. Runs that begin at once may choose the same one; then a
// pod says that it is in use.
const controlPort = 38080

// freeControlPort is one that no other run uses.
func (e *Existing) freeControlPort(ctx context.Context) (int, error) {
	pods, err := e.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=plumbline-control"})
	if err != nil {
		return 0, fmt.Errorf("look for other runs' control servers: %w", err)
	}
	used := map[string]bool{}
	for _, p := range pods.Items {
		for _, arg := range p.Spec.Containers[0].Args {
			used[arg] = true
		}
	}
	// Two that begin at once rarely choose the same.
	digest := fnv.New32a()
	digest.Write([]byte(e.Run()))
	for n := range uint32(256) {
		port := controlPort + int((digest.Sum32()+n)%256)
		if !used[fmt.Sprintf("--port=%d", port)] {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a port for the control server: %d to %d are in use by other runs", controlPort, controlPort+255)
}

func (e *Existing) openControl(ctx context.Context) error {
	nodes, err := e.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	n := nodes[len(nodes)-1]
	port, err := e.freeControlPort(ctx)
	if err != nil {
		return err
	}
	e.control = netip.AddrPortFrom(n.Addr4(), uint16(port))
	manifest, err := cluster.ControlServer(e.Run(), n.Name, e.opts.Foreign.EchoImage, port)
	if err != nil {
		return err
	}
	if err := e.applier.Apply(ctx, manifest); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		p, err := e.client.CoreV1().Pods(e.Run().Namespace("system")).Get(ctx, "control", metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodRunning, nil
	})
	if err != nil {
		return fmt.Errorf("wait for pod %s/control (does node %s have image %s?): %w", e.Run().Namespace("system"), n.Name, e.opts.Foreign.EchoImage, err)
	}
	return nil
}

func (e *Existing) openProvider(ctx context.Context) error {
	if e.opts.Foreign.LB != string(run.OurLB) {
		return nil
	}
	plumbLB, err := Program(e.opts.run, "plumb-lb")
	if err != nil {
		return err
	}
	// Load balancers go on without their provider, and end with the run.
	e.onClose(func(ctx context.Context) error { return removeOwn(ctx, e.opts.run, nil, e.log) })
	return e.startProvider(plumbLB, "--instances=host", "--kubeconfig="+e.opts.Foreign.Kubeconfig,
		"--lb-range-v4="+loopbackLBs(e.opts.run.Number).String(), "--lb-class="+existing.LBClass(e.Run()), "--namespace="+e.Run().Namespace("test"))
}

// awaited are agents whose pods are ready when they have started, and forward as far as
// pods see it: nobody enters the nodes.
type awaited struct {
	*cluster.Manifests
	e *Existing
}

// Start starts them, waits for their pods and, if there is an image that can ask, until
// Services answer everywhere.
func (a awaited) Start(ctx context.Context, d cluster.Dataplane) error {
	if err := a.Manifests.Start(ctx, d); err != nil {
		return err
	}
	if err := a.AwaitReady(ctx, d); err != nil || a.e.opts.Foreign.ProxyImage == "" {
		return err
	}
	services, err := a.e.installer.Services(ctx)
	if err != nil {
		return err
	}
	return a.AwaitAnswers(ctx, a.e.opts.Foreign.ProxyImage, services, cluster.DefaultTimeouts().Forward)
}

// removePatience is how long a cluster may take to remove a dataplane.
const removePatience = 5 * time.Minute

// Install leaves the cluster as it is for the row existing. Others it installs
// from manifests: own ones and the user's, unless somebody proxies Services there already
// (Foreign.Beside). What it installs is removed once, by the function that it returns or
// when the stage is closed; if something of it is left that was not there before, that is
// a cluster.Residue.
func (e *Existing) Install(ctx context.Context, r row.Row) (string, func(context.Context) error, error) {
	if err := e.run.Occupied(ctx); err != nil {
		return "", nil, fmt.Errorf("row %s: %w", r, err)
	}
	e.beside = nil
	if r.Dataplane == row.Existing {
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
		if e.installer, err = cluster.NewInstaller(ctx, e.cluster, e.Run(), awaited{e.agents, e}, e.opts.Foreign.EchoImage, e.log); err != nil {
			return "", nil, err
		}
	}
	before, err := e.lookAround(ctx, r)
	if err != nil {
		return "", nil, err
	}
	var registered []string // before a manifest comes
	if d.Manifest != "" {
		if registered, err = e.agents.Registered(ctx); err != nil {
			return "", nil, err
		}
	}
	e.installed = d
	err = e.installer.Install(ctx, d)
	if err != nil && !errors.Is(err, cluster.ErrTaken) {
		err = errors.Join(err, e.checkResidue(ctx, d, before, registered))
	}
	if err != nil && !errors.Is(err, cluster.ErrNotRemoved) {
		return "", nil, err
	}
	gone := errors.Is(err, cluster.ErrResidue) // then it is no more than left, and said
	remove := func(ctx context.Context) error {
		if gone {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
		defer cancel()
		err := e.installer.Remove(ctx, d)
		if err == nil {
			err = e.checkResidue(ctx, d, before, registered)
		}
		gone = err == nil || errors.Is(err, cluster.ErrResidue)
		return err
	}
	e.onClose(remove)
	return d.Version, remove, err
}

// Kind is "existing".
func (e *Existing) Kind() string { return "existing" }

// DualStack is false: a balancer of ours has an address of one family here.
func (e *Existing) DualStack() bool { return false }

// SharesAddress is true but for the cluster's own load balancer: ours is on this host.
func (e *Existing) SharesAddress() bool { return e.opts.Foreign.LB != string(run.ClusterLB) }

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
func (e *Existing) LB() run.LB {
	if e.opts.Foreign.LB == string(run.OurLB) {
		return e.balancer(existing.LBClass(e.Run()))
	}
	return unknownLB{front: run.Front(e.opts.Foreign.LB)}
}

// unknownLB is one of which nothing is recorded, or none. Its other methods are
// not to be called (run.LB).
type unknownLB struct {
	run.LB
	front run.Front
}

// Front says which of the two it is.
func (u unknownLB) Front() run.Front { return u.front }

// Died is never closed.
func (unknownLB) Died() <-chan struct{} { return nil }

// Profile says that nothing is known.
func (u unknownLB) Profile() report.LB {
	if u.front == run.NoLB {
		return report.LB{Kind: "none (a node port, externalTrafficPolicy=Cluster)", Profile: "none"}
	}
	return report.LB{Kind: "the cluster's own", Profile: "unknown"}
}
