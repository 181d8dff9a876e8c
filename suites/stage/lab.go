package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/host/clean"
	"github.com/plumbline/plumbline/fixtures/lab"
	"github.com/plumbline/plumbline/fixtures/lab/network"
	"github.com/plumbline/plumbline/fixtures/netns"
	"github.com/plumbline/plumbline/suites/scenario"
)

// Lab is a stage of network namespaces on this host, with an HAProxy in front.
type Lab struct {
	base
	lab      *lab.Lab
	programs programs
	agents   *lab.Agents
	version  string // of kube-proxy
}

var _ scenario.Stage = (*Lab)(nil)

// programs are the project's own, and upstream's kube-proxy.
type programs struct {
	bin       string
	kubeProxy string // empty until a row wants it
}

func (p programs) own(name string) string { return filepath.Join(p.bin, name) }

// EnterLab makes this process the client of a lab: it takes away what a run of
// the same name has left, makes ready what needs the host's network, and starts
// this program anew inside the lab's client namespace. There it returns at once.
func EnterLab(ctx context.Context, o Options, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root, for network namespaces: run this with sudo")
	}
	if err := labConfig(o).Validate(); err != nil {
		return err
	}
	if os.Getenv(network.Mark) != "" {
		return network.Enter(o.Name) // started anew: it only looks whether that is true
	}
	if _, err := findPrograms(ctx, o.Rows, log); err != nil {
		return err
	}
	l, err := host.TakeLock(ctx, StateDir, max(o.Wait, lockPatience))
	if err != nil {
		return err
	}
	if err := errors.Join(l.Private(), removeLab(ctx, o.Name, log), l.Release()); err != nil {
		return err
	}
	return network.Enter(o.Name)
}

func labConfig(o Options) network.Config {
	return network.Config{Name: o.Name, Nodes: o.Workers, Zones: zones(), IPFamily: o.IPFamily}
}

// zones are what the nodes are spread over, in turn.
func zones() []string { return []string{"zone-a", "zone-b", "zone-c"} }

// removeLab removes what a lab has left on this host.
func removeLab(ctx context.Context, name string, log *slog.Logger) error {
	left, err := clean.FindLab(clean.Ours(), netns.Prefix+name+"-", labDir(name))
	if err != nil {
		return err
	}
	err = clean.Remove(ctx, left, func(o clean.Object) { log.Debug("removed", "what", o.String()) })
	return errors.Join(err, os.RemoveAll(filepath.Join(lbDir, name)))
}

func labDir(name string) string { return filepath.Join(StateDir, "lab-"+name) }

// findPrograms finds the project's programs, and builds kube-proxy if a row asks
// for it and it is not in the cache.
func findPrograms(ctx context.Context, rows []scenario.Row, log *slog.Logger) (programs, error) {
	root, err := SourceRoot()
	if err != nil {
		return programs{}, err
	}
	p := programs{bin: filepath.Join(root, "bin")}
	for _, name := range []string{"plumb-proxy", "plumb-lb", echo, probe} {
		if _, err := os.Stat(p.own(name)); err != nil {
			return p, fmt.Errorf("find the project's programs: %w; run make build", err)
		}
	}
	for _, r := range rows {
		if r.Dataplane != "kube-proxy" || p.kubeProxy != "" {
			continue
		}
		if p.kubeProxy, err = KubernetesBinary(ctx, "kube-proxy", log); err != nil {
			return p, err
		}
	}
	return p, nil
}

// OpenLab brings a lab up. It must be called inside (EnterLab). If it fails,
// nothing stays.
func OpenLab(ctx context.Context, o Options, log *slog.Logger) (*Lab, error) {
	b, err := newBase(o, log)
	if err != nil {
		return nil, err
	}
	pins, err := ci.Pins()
	if err != nil {
		return nil, err
	}
	l := &Lab{base: b, version: pins.Kubernetes}
	if l.programs, err = findPrograms(ctx, o.Rows, log); err != nil {
		return nil, err
	}
	return l, l.open(ctx, []step{
		{"lock", l.privateLock},
		{"results", l.makeDir},
		{"lab", l.openLab},
		{"witness", l.openInstaller},
		{"load balancer provider", l.openProvider},
	})
}

// echo is the workload's image in a lab: the name of a program.
const echo = "plumb-echo"

// probe is the program of the conformance suite's clients and servers.
const probe = "plumb-probe"

// privateLock takes the run lock for this process alone: the lab's programs outlive
// one that is killed, and must not keep the next run from ending them.
func (l *Lab) privateLock(ctx context.Context) error {
	held, err := host.TakeLock(ctx, StateDir, max(l.opts.Wait, lockPatience))
	if err != nil {
		return err
	}
	l.onClose(func(context.Context) error { return held.Release() })
	return held.Private()
}

func (l *Lab) openLab(ctx context.Context) (err error) {
	l.lab, err = lab.Open(ctx, lab.Config{
		Network: labConfig(l.opts), Version: l.version, Echo: echo, Programs: map[string]string{echo: l.programs.own(echo), probe: l.programs.own(probe)},
		Dir: labDir(l.opts.Name), Logs: filepath.Join(l.opts.Dir, "lab"),
	}, l.log)
	if err != nil {
		return err
	}
	// Load balancers go on without their provider, and end with the lab.
	l.onClose(func(ctx context.Context) error {
		return errors.Join(l.lab.Close(), removeLab(ctx, l.opts.Name, l.log))
	})
	return nil
}

func (l *Lab) openInstaller(ctx context.Context) (err error) {
	l.agents = l.lab.Agents()
	l.installer, err = cluster.NewInstaller(ctx, l.lab, l.agents, echo, l.log)
	return err
}

// KillAgent ends a node's agent with SIGKILL; it is started again at once.
func (l *Lab) KillAgent(ctx context.Context, node string) error {
	return l.agents.Kill(ctx, node, l.installed)
}

// StopAgents ends all agents and leaves what they have put into the kernel.
func (l *Lab) StopAgents(ctx context.Context) error { return l.agents.Halt(ctx) }

// StartAgents starts them again and returns when they forward.
func (l *Lab) StartAgents(ctx context.Context) error {
	return errors.Join(l.agents.Start(ctx, l.installed), l.installer.AwaitForwarding(ctx))
}

func (l *Lab) openProvider(context.Context) error {
	wire := l.lab.Network().Wire()
	args := []string{"--instances=netns", "--kubeconfig=" + l.lab.Kubeconfig(), "--wire=" + wire.NS.Name, "--bridge=" + wire.Bridge}
	if wire.V4.LB.IsValid() {
		args = append(args, "--lb-range-v4="+wire.V4.LB.String(), "--wire-v4="+wire.V4.All.String())
	}
	if wire.V6.LB.IsValid() {
		args = append(args, "--lb-range-v6="+wire.V6.LB.String(), "--wire-v6="+wire.V6.All.String())
	}
	return l.startProvider(l.programs.own("plumb-lb"), args...)
}

// Install installs a row's dataplane and returns when it forwards.
func (l *Lab) Install(ctx context.Context, r scenario.Row) (string, func(context.Context) error, error) {
	d, err := l.dataplane(r)
	if err != nil {
		return "", nil, err
	}
	return l.install(ctx, d)
}

// InstallMutant installs a row's own dataplane, broken on purpose as the name of a
// mutation says. Its agent is of a build of its own (make teeth).
func (l *Lab) InstallMutant(ctx context.Context, r scenario.Row, mutation string) (func(context.Context) error, error) {
	d, err := l.dataplane(r)
	if err != nil {
		return nil, err
	}
	if !d.Own {
		return nil, fmt.Errorf("break %s on purpose: it is not our own", r)
	}
	d.Program, d.Args = l.programs.own("mutant/plumb-proxy"), []string{"--mutation=" + mutation}
	_, remove, err := l.install(ctx, d)
	return remove, err
}

func (l *Lab) dataplane(r scenario.Row) (cluster.Dataplane, error) {
	d, err := dataplane(r)
	if err != nil {
		return d, err
	}
	for _, p := range l.lab.PodSubnets() {
		d.PodSubnets = append(d.PodSubnets, p.String())
	}
	d.Program = l.programs.own("plumb-proxy")
	if !d.Own {
		d.Program, d.Version = l.programs.kubeProxy, l.version
	}
	return d, nil
}

// Kind is "lab".
func (l *Lab) Kind() string { return "lab" }

// Cluster is what a scenario runs on.
func (l *Lab) Cluster() cluster.Cluster { return l.lab }

// Echo is the workload's image.
func (l *Lab) Echo() string { return echo }

// Probe is the image of plumb-probe.
func (l *Lab) Probe(context.Context) (string, error) { return probe, nil }

// Control is a server that no dataplane forwards for.
func (l *Lab) Control() netip.AddrPort { return l.lab.Control() }
