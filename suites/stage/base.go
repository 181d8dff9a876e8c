package stage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/kubewait"
	"github.com/plumbline/plumbline/fixtures/podnet"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Options describe what is brought up.
type Options struct {
	Cluster  string // kind, lab or existing
	Name     string // of the cluster
	IPFamily string
	// PodAddresses says where pods of a cluster made for the run have theirs from: InPodCIDR
	// or podnet.Elsewhere.
	PodAddresses string
	NodeImage    string // of kind; empty: the pinned one
	Subnet       string // of kind's Docker network, IPv4; empty: chosen
	// ControlPlane of a lab: Model or Real.
	ControlPlane string
	Workers      int           // nodes that take the workload
	Profile      string        // of the load balancer
	Rows         []row.Row     // whose images or programs are made beforehand
	Dir          string        // records and logs go here
	Keep         bool          // leave the cluster when done
	Wait         time.Duration // for another run on this host to end
	Foreign      Foreign       // of an existing cluster

	// Lost is called once if the run cannot go on, with the cause: who waits for it ends it.
	Lost context.CancelCauseFunc

	run    *host.Run     // set by Enter
	docker clean.Engine  // set by Enter, of kind
	dead   []cluster.Run // set by Enter, of an existing cluster: what of the same name ran here

	AwaitQuiet time.Duration // in all, for a busy host to become quiet: before the first row and before repeats
}

// What a lab's API, controllers and scheduler are.
const (
	Model = "model" // fixtures/api and fixtures/lab/control, in this process
	Real  = "real"  // etcd and Kubernetes' own programs
)

// InPodCIDR is where pods have their addresses from with kind's own CNI plugin.
const InPodCIDR = "podcidr"

// Flags lets a command line say what is brought up.
func (o *Options) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Cluster, "cluster", "kind", "what it runs on: kind, lab (network namespaces, no Docker) or existing (--kubeconfig)")
	fs.StringVar(&o.Name, "name", "", "name of the cluster, made for the run (default: plumbline-run; a lab's: lab)")
	fs.IntVar(&o.Workers, "workers", cmp.Or(o.Workers, 2), "nodes that take the workload")
	fs.StringVar(&o.IPFamily, "ip-family", "ipv4", "ipv4, ipv6 or dual")
	fs.StringVar(&o.PodAddresses, "pod-addresses", InPodCIDR, "kind, lab: where pods have theirs from: podcidr (their Node's) or elsewhere (as with CNI plugins that manage them themselves)")
	fs.StringVar(&o.NodeImage, "node-image", "", "kind: a node `image` instead of the pinned one, such as one of another Kubernetes")
	fs.StringVar(&o.Subnet, "subnet", "", "kind: IPv4 `network` (/16) of its Docker network (default: the first of 172.28.0.0/16 and four more that nothing on this host uses)")
	fs.StringVar(&o.ControlPlane, "control-plane", Model, "lab: model (in this process, starts at once) or real (etcd and Kubernetes' own programs; the first time they are built)")
	fs.StringVar(&o.Foreign.Kubeconfig, "kubeconfig", "", "existing: `file` that says how its API is reached; in-cluster: the service account of the pod that this runs in")
	fs.StringVar(&o.Foreign.LB, "lb", "ours", "existing: ours (an HAProxy on this host), cluster (its own) or none (a node port)")
	fs.StringVar(&o.Foreign.EchoImage, "echo-image", "", "existing: image of plumb-echo that its nodes have or can pull")
	fs.StringVar(&o.Foreign.ProbeImage, "probe-image", "", "existing: image of plumb-probe, for conformance")
	fs.StringVar(&o.Foreign.ProbeRanges, "probe-ranges", "", "existing: `CIDRs` of Services and pods, where its API does not tell them, for conformance: probes connect nowhere else")
	fs.StringVar(&o.Foreign.ProxyImage, "proxy-image", "", "existing: image of plumb-proxy, for rows that install it")
	fs.BoolVar(&o.Foreign.Beside, "beside", false, "existing: install a row's dataplane also where another proxies Services; the report says so")
	fs.DurationVar(&o.Wait, "wait", lockPatience, "how long to wait for another run on this host to end")
	fs.BoolVar(&o.Keep, "keep-cluster", false, "leave the cluster when done (kind)")
}

// MeasureFlags are those of Measure alone.
func (o *Options) MeasureFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.AwaitQuiet, "await-quiet", 2*time.Minute, "how long to wait in all for a busy host to become quiet, before the first row and before a rollout that is repeated")
}

// Enter puts this process where the clients of the cluster are. It comes before
// anything is opened or printed: for a lab it starts this program anew inside.
func Enter(ctx context.Context, o *Options, log *slog.Logger) error {
	if _, err := profile.Parse(o.Profile); err != nil {
		return err
	}
	o.ControlPlane, o.PodAddresses = cmp.Or(o.ControlPlane, Model), cmp.Or(o.PodAddresses, InPodCIDR)
	if o.PodAddresses != InPodCIDR && o.PodAddresses != podnet.Elsewhere {
		return fmt.Errorf("--pod-addresses %q: give %s or %s", o.PodAddresses, InPodCIDR, podnet.Elsewhere)
	}
	if o.PodAddresses == podnet.Elsewhere && o.Cluster == "existing" {
		return errors.New("--pod-addresses: an existing cluster has its own")
	}
	if o.ControlPlane != Model && o.ControlPlane != Real {
		return fmt.Errorf("unknown --control-plane %q; known: %s, %s", o.ControlPlane, Model, Real)
	}
	if o.PodAddresses == podnet.Elsewhere && o.NodeImage != "" {
		return errors.New("--pod-addresses=elsewhere is for node images of this project, whose CNI plugin heeds it; leave --node-image out")
	}
	if o.Cluster != "kind" && (o.Subnet != "" || o.NodeImage != "") {
		return fmt.Errorf("--subnet and --node-image are of kind; a cluster of the kind %s has neither", o.Cluster)
	}
	if o.ControlPlane == Real && o.Cluster != "lab" {
		return fmt.Errorf("--control-plane=%s is of a lab; a cluster of the kind %s has its own", Real, o.Cluster)
	}
	switch o.Cluster {
	case "kind":
		o.Name = cmp.Or(o.Name, "plumbline-run")
		return EnterKind(ctx, o, log)
	case "existing":
		o.Name = cmp.Or(o.Name, "existing")
		return EnterExisting(ctx, o, log)
	case "lab":
		o.Name = cmp.Or(o.Name, "lab")
		if o.Keep {
			return errors.New("--keep-cluster: a lab is part of the run and ends with it")
		}
		return EnterLab(ctx, o, log)
	}
	return fmt.Errorf("unknown --cluster %q; known: kind, lab, existing", o.Cluster)
}

// Leave ends what Enter began, when all is closed. A run of which something is left that
// does not go away stays known by its folder: the next one of its name, or clean, tries again.
func (o *Options) Leave(ctx context.Context) error {
	if o.run == nil {
		return nil
	}
	return endRun(ctx, o.run, o.docker)
}

// EndRun is Leave for a run that has no cluster and no containers.
func EndRun(ctx context.Context, r *host.Run) error { return endRun(ctx, r, nil) }

func endRun(ctx context.Context, r *host.Run, engine clean.Engine) error {
	if err := removeOwn(ctx, r, engine, slog.Default()); err != nil {
		return errors.Join(err, r.Abandon())
	}
	return r.End(ctx)
}

// ResultsDir is a folder for what a run of this name and time leaves; two runs that begin
// at once have two. It is not made.
func (o *Options) ResultsDir(results, what string) (string, error) {
	random := strings.ToLower(rand.Text()[:5])
	if o.run != nil {
		random = o.run.ID[strings.LastIndexByte(o.run.ID, '-')+1:]
	}
	dir, err := filepath.Abs(filepath.Join(results, time.Now().UTC().Format("20060102-150405")+"-"+what+"-"+random))
	if err != nil {
		return "", fmt.Errorf("find the results directory: %w", err)
	}
	return dir, nil
}

// fail says that the run cannot go on.
func (o *Options) fail(err error) {
	if o.Lost != nil {
		o.Lost(err)
	}
}

// base is what all stages have: what was opened, and how it is closed.
type base struct {
	opts      Options
	profile   profile.Profile
	installer *cluster.Installer
	provider  *Provider
	installed cluster.Dataplane             // the last one
	before    uint64                        // bytes of memory available when nothing was open
	closers   []func(context.Context) error // in order of opening
	log       *slog.Logger
}

func newBase(o Options, log *slog.Logger) (base, error) {
	if o.run == nil {
		return base{}, errors.New("no run has begun; call Enter first")
	}
	of, err := profile.Parse(o.Profile)
	return base{opts: o, profile: of, before: host.MemAvailable(), log: log}, err
}

// Run is the run in its cluster.
func (b *base) Run() cluster.Run { return cluster.Run(b.opts.run.ID) }

// SharesAddress is false where balancers have addresses of their own.
func (b *base) SharesAddress() bool { return false }

// Latencies are those that were measured on kind.
func (b *base) Latencies() report.Latencies { return run.UsualLatencies() }

// DualStack says that the cluster was made with both IP families.
func (b *base) DualStack() bool { return b.opts.IPFamily == "dual" }

// UsedMiB is how much less memory is available now than when nothing was open.
func (b *base) UsedMiB() int { return (int(b.before) - int(host.MemAvailable())) >> 20 }

// step is one part of a stage. What it opens it adds to the closers.
type step struct {
	name string
	run  func(context.Context) error
}

// open runs steps in order. If one fails, nothing stays.
func (b *base) open(ctx context.Context, steps []step) error {
	for _, s := range steps {
		b.log.Debug("step", "name", s.name)
		err := s.run(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			b.opts.Keep = false
			return errors.Join(fmt.Errorf("%s: %w", s.name, err), b.Close(context.WithoutCancel(ctx)))
		}
	}
	return nil
}

// Close takes everything down, last first.
func (b *base) Close(ctx context.Context) error {
	var all error
	for _, c := range slices.Backward(b.closers) {
		all = errors.Join(all, c(ctx))
	}
	return all
}

func (b *base) onClose(f func(context.Context) error) { b.closers = append(b.closers, f) }

// lockPatience is how long a command left by a run that was killed may take, and
// the default of Options.Wait.
const lockPatience = 20 * time.Second

// Waiting says which process is waited for.
func Waiting(log *slog.Logger) func(holder string) {
	return func(holder string) {
		log.Info("waiting for another run on this host to end", "process", holder)
	}
}

// lock keeps a second run on this host from sharing what this one uses.
func (b *base) lock(ctx context.Context) error {
	l, err := host.TakeLock(ctx, StateDir, max(b.opts.Wait, lockPatience), Waiting(b.log))
	if err != nil {
		return err
	}
	b.onClose(func(context.Context) error { return l.Release() })
	return nil
}

func (b *base) makeDir(context.Context) error { return os.MkdirAll(b.opts.Dir, 0o755) }

// startProvider runs plumb-lb for the cluster, with what it needs to know beside
// the cluster's name, the profile and where its files go.
func (b *base) startProvider(program string, args ...string) error {
	if err := raisePriority(); err != nil {
		b.log.Warn("probes may be late", "error", err)
	}
	dir := filepath.Join(b.opts.Dir, "lb")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var err error
	b.provider, err = StartProvider(ProviderConfig{
		Program: program, PIDFile: filepath.Join(b.opts.run.Dir, "plumb-lb.pid"), Dir: dir,
		Args: append(args, "--cluster-name="+b.opts.Name, "--profile="+b.opts.Profile, "--state-dir="+b.lbDir()),
	})
	if err != nil {
		return err
	}
	b.onClose(func(context.Context) error { return b.provider.Stop() })
	return nil
}

// install installs a row's dataplane and returns when it forwards.
func (b *base) install(ctx context.Context, d cluster.Dataplane) (string, func(context.Context) error, error) {
	if err := host.Supports(ctx, d.Facts().Kernel); err != nil {
		return "", nil, cluster.Unsupported{Why: err.Error()}
	}
	b.installed = d
	if err := b.installer.Install(ctx, d); err != nil {
		return "", nil, err
	}
	return d.Version, func(ctx context.Context) error { return b.installer.Remove(ctx, d) }, nil
}

// lbDir is where the provider keeps its load balancers' files. The paths of sockets in it
// must be short, so that a run's folder does not hold its name twice.
func (b *base) lbDir() string { return filepath.Join(b.opts.run.Dir, "lb") }

// LB is the load balancer in front.
func (b *base) LB() run.LB { return b.balancer("") }

func (b *base) balancer(class string) run.LB {
	return balancer{b.provider, b.profile, b.opts.Name, b.lbDir(), class}
}

type balancer struct {
	*Provider
	profile      profile.Profile
	cluster, dir string
	class        string
}

// Dir holds the configuration and the sockets of a Service's HAProxy.
func (b balancer) Dir(service types.UID) string {
	return filepath.Join(b.dir, instance.Name(b.cluster, string(service)))
}

// Reload has the provider reload all of its load balancers, and returns when this one is on record as
// reloaded.
func (b balancer) Reload(ctx context.Context, lb disrupt.LB) error {
	done := func() (n int, err error) {
		events, err := b.Events()
		for _, e := range events {
			if e.Kind == record.KindLB && e.State == record.LBReloaded && e.LB == lb.Service {
				n++
			}
		}
		return n, err
	}
	before, err := done()
	if err != nil {
		return err
	}
	if err := b.process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("tell the load balancer provider: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reloadPatience)
	defer cancel()
	for {
		now, err := done()
		if err != nil || now > before {
			return err
		}
		if err := kubewait.Pause(ctx, recordsEvery); err != nil {
			return fmt.Errorf("wait until it has reloaded (%s says more): %w", filepath.Join(b.records, "plumb-lb.log"), err)
		}
	}
}

const (
	reloadPatience = 20 * time.Second      // the provider's own for one, and some
	recordsEvery   = 10 * time.Millisecond // its records are looked at
)

// NetNS is where the HAProxy of a Service has its addresses: a file that is there as long as its
// process.
func (b balancer) NetNS(ctx context.Context, lb disrupt.LB) (string, error) {
	pid, err := b.master(ctx, lb)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/%d/ns/net", pid), nil
}

// master is the process that listens for commands.
func (b balancer) master(ctx context.Context, lb disrupt.LB) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reloadPatience)
	defer cancel()
	return haproxy.NewClient(b.Dir(lb.UID)).Master(ctx)
}

// Open are the connections to servers that are open, which no log tells of yet. Those that are
// not older than dials may take are left out: whether they are open is not known.
func (b balancer) Open(ctx context.Context, lb disrupt.LB) ([]record.Conn, error) {
	sessions, err := haproxy.NewClient(b.Dir(lb.UID)).Sessions(ctx, time.Duration(b.profile.ConnectRetries()+1)*b.profile.Connect)
	if err != nil {
		return nil, err
	}
	now := record.Now()
	var out []record.Conn
	for _, s := range sessions {
		if s.Node != "" {
			out = append(out, record.Conn{LB: lb.Service, Client: s.Client, Server: s.Node, Accepted: now - s.Age.Nanoseconds(), At: now, Open: true})
		}
	}
	return out, nil
}

// End ends the HAProxy of a Service: at once, or softly.
func (b balancer) End(ctx context.Context, lb disrupt.LB, softly bool) error {
	pid, err := b.master(ctx, lb)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// What listened a moment ago is what was opened, unless its number is another's by now.
	if again, err := b.master(ctx, lb); err != nil || again != pid {
		return errors.Join(fmt.Errorf("process %d has ended by itself", pid), err)
	}
	sig := unix.SIGKILL
	if softly {
		sig = unix.SIGUSR1 // management.txt, 4: stop listening, finish what there is
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}

// Class is that of the Services it serves, where it is not alone.
func (b balancer) Class() string { return b.class }

// Front is ours.
func (balancer) Front() run.Front { return run.OurLB }

// Profile is how the load balancer was configured.
func (b balancer) Profile() report.LB {
	return report.LB{
		Version: b.Version(),
		Kind:    "HAProxy, mode tcp, ipMode Proxy", Profile: b.profile.Name, Path: lbplan.CheckPath, Interval: report.Duration(b.profile.Interval), Fast: report.Duration(b.profile.Fast), Down: report.Duration(b.profile.Down),
		Fall: b.profile.Fall, Rise: b.profile.Rise, Connect: report.Duration(b.profile.Connect), Client: report.Duration(b.profile.Idle), Server: report.Duration(b.profile.Idle),
		Retries: b.profile.ConnectRetries(), Balance: "roundrobin",
	}
}
