package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/image"
	"github.com/plumbline/plumbline/fixtures/kind"
	"github.com/plumbline/plumbline/fixtures/nodeimage"
	"github.com/plumbline/plumbline/fixtures/podnet"
	"github.com/plumbline/plumbline/suites/row"
	"github.com/plumbline/plumbline/suites/run"
)

// Kind is a stage on a kind cluster with an HAProxy in front.
type Kind struct {
	base
	reach
	images  *Images
	fixture *kind.Fixture
	cluster *kind.Cluster
	agents  *cluster.Manifests
	echo    string
	control netip.AddrPort
}

var _ run.Stage = (*Kind)(nil)

// Own is where one of the project's programs is on this host; empty: it is none.
func (k *Kind) Own(program string) string { return k.images.own[program] }

// EnterKind checks what is asked for, takes away what runs of the same name have left on this
// host that live no more, and begins the run. The cluster keeps its name: it may outlive the run.
func EnterKind(ctx context.Context, o *Options, log *slog.Logger) error {
	if err := (kind.Config{Name: o.Name, Workers: o.Workers, IPFamily: o.IPFamily, Subnet: o.Subnet}).Validate(); err != nil {
		return err
	}
	if err := groupAlone(ctx); err != nil {
		return err
	}
	engine, err := image.NewEngine(ctx, io.Discard, log)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(o.Name, kind.Prefix+"-")
	if _, err := removeDead(ctx, StateDir, name, engine.Client(), log); err != nil {
		return err
	}
	o.docker = engine.Client()
	if o.run, err = host.BeginRun(ctx, StateDir, name); err != nil {
		return err
	}
	log.Info("run begins", "run", o.run.ID)
	// What is half done when it is killed holds the host's lock.
	return errors.Join(o.run.UseDocker(), o.run.Private())
}

// OpenKind brings everything up. A cluster of the same name that an earlier run left
// behind is removed first. If it fails, nothing stays.
func OpenKind(ctx context.Context, o Options, progress io.Writer, log *slog.Logger) (*Kind, error) {
	b, err := newBase(o, log)
	if err != nil {
		return nil, err
	}
	k := &Kind{base: b}
	return k, k.open(ctx, []step{
		{"images", func(ctx context.Context) (err error) { k.images, err = NewImages(ctx, progress, log); return err }},
		{"lock", k.lock},
		{"results", k.makeDir},
		{"cluster", k.openCluster},
		{"control server", k.openControl},
		{"witness", k.openInstaller},
		{"priority", k.raiseGroup},
		{"load balancer provider", k.openProvider},
	})
}

func (k *Kind) openCluster(ctx context.Context) error {
	node, err := k.makeImages(ctx)
	if err != nil {
		return err
	}
	if k.fixture, err = kind.New(k.images.Engine(), k.log); err != nil {
		return err
	}
	cfg := kind.Config{Name: k.opts.Name, Workers: k.opts.Workers, IPFamily: k.opts.IPFamily, NodeImage: node, Dir: StateDir, Subnet: k.opts.Subnet, PodsElsewhere: k.opts.PodAddresses == podnet.Elsewhere}
	if err := k.removeLeftovers(ctx, cfg); err != nil {
		return err
	}
	if k.cluster, err = k.fixture.Up(ctx, cfg); err != nil {
		return err
	}
	k.onClose(func(ctx context.Context) error {
		if k.opts.Keep {
			k.log.Info("the cluster stays", "kubeconfig", cfg.Kubeconfig(), "remove", "plumbline cluster down "+cfg.Name)
			return nil
		}
		return k.cluster.Down(ctx)
	})
	return nil
}

// makeImages makes every image the run will need, before anything else: a pull
// or a build that fails costs no cluster, and none disturbs a measurement.
func (k *Kind) makeImages(ctx context.Context) (node string, err error) {
	makers := []func(context.Context) (string, error){
		func(ctx context.Context) (string, error) { return k.images.Node(ctx, k.opts.NodeImage) }, k.images.Echo, k.images.HAProxy,
	}
	for _, r := range k.opts.Rows {
		switch {
		case r.Own():
			makers = append(makers, func(ctx context.Context) (string, error) { return k.images.Proxy(ctx, r.Mode) })
		case r.Dataplane == row.Upstream:
			makers = append(makers, func(ctx context.Context) (string, error) {
				ref, _, err := k.images.KubeProxy(ctx)
				if errors.Is(err, nodeimage.ErrNoGo) {
					return "", nil // its row is unsupported
				}
				return ref, err
			})
		}
	}
	refs := make([]string, len(makers))
	for n, m := range makers {
		if refs[n], err = m(ctx); err != nil {
			return "", err
		}
	}
	k.echo = refs[1]
	return refs[0], nil
}

// removeLeftovers removes a cluster of the same name that a run which was killed has left.
func (k *Kind) removeLeftovers(ctx context.Context, cfg kind.Config) error {
	names, err := k.fixture.List(ctx)
	if err != nil {
		return err
	}
	for _, other := range names {
		if other != cfg.Name {
			k.log.Warn("another cluster of ours shares this host and may spoil measurements", "cluster", other, "remove", "plumbline cluster down "+other)
		}
	}
	if !slices.Contains(names, cfg.Name) {
		return nil
	}
	k.log.Info("removing what an earlier run left", "cluster", cfg.Name)
	return k.fixture.Down(ctx, cfg)
}

// openInstaller prepares the cluster for dataplanes.
func (k *Kind) openInstaller(ctx context.Context) (err error) {
	if k.agents, err = cluster.NewManifests(k.cluster, k.Run(), k.echo, k.log); err != nil {
		return err
	}
	k.reach = reach{&k.base, k.agents}
	k.installer, err = cluster.NewInstaller(ctx, k.cluster, k.Run(), k.agents, k.echo, k.log)
	return err
}

// openControl starts the echo server that no dataplane forwards for.
func (k *Kind) openControl(ctx context.Context) error {
	cli, net := k.images.Engine().Client(), k.fixture.Network()
	made, err := cli.ContainerCreate(ctx, &container.Config{
		Image: k.echo, Labels: map[string]string{image.RunLabel: k.opts.run.ID},
	}, &container.HostConfig{NetworkMode: container.NetworkMode(net.Name)}, nil, nil, kind.Prefix+"-"+k.opts.run.ID+"-control")
	if err != nil {
		return err
	}
	// Load balancers go on without their provider, and end with the run.
	k.onClose(func(ctx context.Context) error { return removeOwn(ctx, k.opts.run, k.opts.docker, k.log) })
	if err := cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return err
	}
	info, err := cli.ContainerInspect(ctx, made.ID)
	if err != nil {
		return err
	}
	if !info.State.Running {
		return fmt.Errorf("%s ended at once with status %d %s", k.echo, info.State.ExitCode, info.State.Error)
	}
	addr, err := firstAddr(info.NetworkSettings.Networks[net.Name], k.opts.IPFamily)
	if err != nil {
		return err
	}
	k.control = netip.AddrPortFrom(addr, 8080)
	return nil
}

func firstAddr(ep *network.EndpointSettings, family string) (netip.Addr, error) {
	if ep == nil {
		return netip.Addr{}, errors.New("the container is not on the network")
	}
	if family == "ipv6" {
		return netip.ParseAddr(ep.GlobalIPv6Address)
	}
	return netip.ParseAddr(ep.IPAddress)
}

// LBRanges are where load balancers get their addresses from.
func (k *Kind) LBRanges() []netip.Prefix {
	return k.fixture.Network().LBRanges()
}

func (k *Kind) openProvider(ctx context.Context) error {
	haproxyImage, err := k.images.HAProxy(ctx)
	if err != nil {
		return err
	}
	net := k.fixture.Network()
	args := []string{
		"--run=" + k.opts.run.ID, "--kubeconfig=" + k.cluster.Config().Kubeconfig(), "--network=" + net.Name, "--lb-range-v4=" + net.V4.LB.String(), "--image=" + haproxyImage,
	}
	if net.V6.LB.IsValid() {
		args = append(args, "--lb-range-v6="+net.V6.LB.String())
	}
	plumbLB, err := Program(k.opts.run, "plumb-lb")
	if err != nil {
		return err
	}
	return k.startProvider(plumbLB, args...)
}

// Kubeconfig is the path of the cluster's kubeconfig.
func (k *Kind) Kubeconfig() string { return k.cluster.Config().Kubeconfig() }

// Kind is "kind".
func (k *Kind) Kind() string { return "kind" }

// Cluster is what a scenario runs on.
func (k *Kind) Cluster() cluster.Cluster { return k.cluster }

// Echo is the workload's image.
func (k *Kind) Echo() string { return k.echo }

// Probe is the image of plumb-probe.
func (k *Kind) Probe(ctx context.Context) (string, error) { return k.images.Probe(ctx) }

// Proxy is the image of our own agent with a backend.
func (k *Kind) Proxy(ctx context.Context, backend string) (string, error) {
	return k.images.Proxy(ctx, backend)
}

// Control is a server that no dataplane forwards for.
func (k *Kind) Control() netip.AddrPort { return k.control }
