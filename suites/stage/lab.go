package stage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/plumbline/plumbline/ci"
	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/lab"
	"github.com/plumbline/plumbline/fixtures/lab/network"
	"github.com/plumbline/plumbline/fixtures/podnet"
	"github.com/plumbline/plumbline/fixtures/userns"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Lab is a stage of network namespaces on this host, with an HAProxy in front.
type Lab struct {
	base
	reach
	lab      *lab.Lab
	programs programs
	mutant   string // plumb-mutant (make teeth)
	agents   *lab.Agents
	version  string // of kube-proxy
}

var _ run.Stage = (*Lab)(nil)

// runMark is the environment variable that tells this program, started anew, its run.
const runMark = "PLUMBLINE_RUN"

// EnterLab makes this process the client of a lab: it takes away what runs of the same
// name have left that live no more, makes ready what needs the host's network, and starts
// this program anew inside the lab's client namespace. There it returns at once. From
// then on the lab is called by the run's id. For an ordinary user all of that is done by the
// same program in a user namespace of his, of which it returns how it ended (again.Ended).
func EnterLab(ctx context.Context, o *Options, log *slog.Logger) error {
	if err := labConfig(*o).Validate(); err != nil {
		return err
	}
	build := func() error { _, err := findPrograms(ctx, *o, log); return err }
	if err := userns.Enter(ctx, build); err != nil {
		return err
	}
	if mark, ok := os.LookupEnv(runMark); ok {
		r, err := host.ContinueRun(StateDir, mark)
		if err != nil {
			return fmt.Errorf("%w; unset %s", err, runMark)
		}
		o.run, o.Name = r, r.ID
		return errors.Join(os.Unsetenv(runMark), network.Enter(r.ID)) // it only looks whether that is true
	}
	if _, err := findPrograms(ctx, *o, log); err != nil {
		return err
	}
	if _, err := removeDead(ctx, StateDir, o.Name, nil, log); err != nil {
		return err
	}
	r, err := host.BeginRun(ctx, StateDir, o.Name)
	if err != nil {
		return err
	}
	if err = os.Setenv(runMark, r.Mark()); err == nil {
		err = network.Enter(r.ID)
	}
	return errors.Join(err, r.End(ctx))
}

func labConfig(o Options) network.Config {
	return network.Config{Name: o.Name, Nodes: o.Workers, Zones: zones(), IPFamily: o.IPFamily}
}

// zones are what the nodes are spread over, in turn.
func zones() []string { return []string{"zone-a", "zone-b", "zone-c"} }

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
	if l.programs, err = findPrograms(ctx, o, log); err != nil {
		return nil, err
	}
	l.mutant = filepath.Join(filepath.Dir(l.programs.own("plumb-proxy")), "mutant", "plumb-mutant")
	return l, l.open(ctx, []step{
		{"run", l.openRun},
		{"results", l.makeDir},
		{"lab", l.openLab},
		{"witness", l.openInstaller},
		{"load balancer provider", l.openProvider},
	})
}

// openRun holds the run for this process alone: the lab's programs outlive one that is
// killed, and must not keep the next run from ending them.
func (l *Lab) openRun(context.Context) error {
	l.log.Info("run begins", "run", l.opts.run.ID)
	if err := l.opts.run.Private(); err != nil {
		return err
	}
	bin, err := binDir(l.opts.run)
	if err != nil {
		return err
	}
	l.onClose(func(context.Context) error { return os.RemoveAll(bin) })
	l.programs.paths, err = keep(l.programs.paths, bin)
	return err
}

func (l *Lab) openLab(ctx context.Context) (err error) {
	l.lab, err = lab.Open(ctx, lab.Config{
		Network: labConfig(l.opts), PodsElsewhere: l.opts.PodAddresses == podnet.Elsewhere, Version: l.version, Real: l.programs.controlPlane, Echo: echo, Programs: map[string]string{echo: l.programs.own(echo), probe: l.programs.own(probe)},
		Dir: filepath.Join(l.opts.run.Dir, "lab"), Logs: filepath.Join(l.opts.Dir, "lab"),
	}, l.log)
	if err != nil {
		return err
	}
	// Load balancers go on without their provider, and end with the lab.
	l.onClose(func(ctx context.Context) error {
		return errors.Join(l.lab.Close(), removeOwn(ctx, l.opts.run, nil, l.log))
	})
	return nil
}

func (l *Lab) openInstaller(ctx context.Context) (err error) {
	l.agents = l.lab.Agents()
	l.reach = reach{&l.base, l.agents}
	l.installer, err = cluster.NewInstaller(ctx, l.lab, l.Run(), l.agents, echo, l.log)
	return err
}

// LBRanges are where load balancers get their addresses from.
func (l *Lab) LBRanges() []netip.Prefix {
	wire := l.lab.Network().Wire()
	return slices.DeleteFunc([]netip.Prefix{wire.V4.LB, wire.V6.LB}, func(p netip.Prefix) bool { return !p.IsValid() })
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
func (l *Lab) Install(ctx context.Context, r row.Row) (string, func(context.Context) error, error) {
	d, err := l.dataplane(r)
	if err != nil {
		return "", nil, err
	}
	return l.install(ctx, d)
}

// InstallMutant installs a row's own dataplane, broken on purpose as the name of a
// mutation says. Its agent is of a build of its own (make teeth).
func (l *Lab) InstallMutant(ctx context.Context, r row.Row, mutation string) (func(context.Context) error, error) {
	d, err := l.dataplane(r)
	if err != nil {
		return nil, err
	}
	if !d.Own {
		return nil, fmt.Errorf("break %s on purpose: it is not our own", r)
	}
	d.Program, d.Args = l.mutant, []string{"--mutation=" + mutation}
	_, remove, err := l.install(ctx, d)
	return remove, err
}

func (l *Lab) dataplane(r row.Row) (cluster.Dataplane, error) {
	d, err := dataplane(r)
	if err != nil {
		return d, err
	}
	for _, p := range l.lab.PodSubnets() {
		d.PodSubnets = append(d.PodSubnets, p.String())
	}
	d.Program = l.programs.own("plumb-proxy")
	if !d.Own {
		if l.programs.lacks != "" {
			return d, cluster.Unsupported{Why: l.programs.lacks}
		}
		d.Program, d.Version = l.programs.kubeProxy, l.version
	}
	return d, nil
}

// Own is where one of the project's programs is on this host; empty: it is none.
func (l *Lab) Own(program string) string { return l.programs.own(program) }

// Lacks is what a run of an ordinary user has less than root's; empty: nothing.
func Lacks() string {
	if userns.Inside() {
		return userns.Lacks
	}
	return ""
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

// Sources are the addresses that clients may have.
func (l *Lab) Sources() []netip.Addr { return l.lab.Network().Sources() }
