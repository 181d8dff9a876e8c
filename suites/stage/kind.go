package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/errdefs"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/host"
	"github.com/plumbline/plumbline/fixtures/image"
	"github.com/plumbline/plumbline/fixtures/kind"
	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/scenario"
)

// Options describe a stage of kind.
type Options struct {
	Name     string // of the cluster
	IPFamily string
	Profile  string         // of the load balancer
	Rows     []scenario.Row // whose images are made beforehand
	Dir      string         // records and logs go here
	Keep     bool           // leave the cluster when done
}

// Kind is a stage on a kind cluster with an HAProxy in front.
type Kind struct {
	opts      Options
	images    *Images
	fixture   *kind.Fixture
	cluster   *kind.Cluster
	installer *cluster.Installer
	provider  *Provider
	profile   haproxy.Profile
	echo      string
	control   netip.AddrPort
	closers   []func(context.Context) error // in order of opening
	log       *slog.Logger
}

var _ scenario.Stage = (*Kind)(nil)

// workers is what the scenarios need: a replica that moves from one to another.
const workers = 2

// lockPatience is how long a command left by a run that was killed may take.
const lockPatience = 20 * time.Second

// OpenKind brings everything up. What an earlier run of the same name left
// behind is removed first. If it fails, nothing stays.
func OpenKind(ctx context.Context, o Options, progress io.Writer, log *slog.Logger) (*Kind, error) {
	k := &Kind{opts: o, log: log}
	profile, ok := haproxy.Profiles()[o.Profile]
	if !ok {
		return nil, fmt.Errorf("unknown load balancer profile %q; known: l4-strict, seed", o.Profile)
	}
	k.profile = profile
	if err := (kind.Config{Name: o.Name, Workers: workers, IPFamily: o.IPFamily}).Validate(); err != nil {
		return nil, err
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"images", func(ctx context.Context) (err error) { k.images, err = NewImages(ctx, progress, log); return err }},
		{"lock", k.lock},
		{"results", func(context.Context) error { return os.MkdirAll(o.Dir, 0o755) }},
		{"cluster", k.openCluster},
		{"control server", k.openControl},
		{"witness", k.openInstaller},
		{"load balancer provider", k.openProvider},
	}
	for _, s := range steps {
		log.Debug("step", "name", s.name)
		err := s.run(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			k.opts.Keep = false
			return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), k.Close(context.WithoutCancel(ctx)))
		}
	}
	return k, nil
}

// Close takes everything down, last first.
func (k *Kind) Close(ctx context.Context) error {
	var all error
	for _, c := range slices.Backward(k.closers) {
		all = errors.Join(all, c(ctx))
	}
	return all
}

func (k *Kind) onClose(f func(context.Context) error) { k.closers = append(k.closers, f) }

// lock keeps a second run on this host from sharing what this one uses.
func (k *Kind) lock(ctx context.Context) error {
	l, err := host.TakeLock(ctx, StateDir, lockPatience)
	if err != nil {
		return err
	}
	k.onClose(func(context.Context) error { return l.Release() })
	return nil
}

func (k *Kind) openCluster(ctx context.Context) error {
	node, err := k.makeImages(ctx)
	if err != nil {
		return err
	}
	if k.fixture, err = kind.New(k.images.Engine(), k.log); err != nil {
		return err
	}
	cfg := kind.Config{Name: k.opts.Name, Workers: workers, IPFamily: k.opts.IPFamily, NodeImage: node, Dir: StateDir}
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
	makers := []func(context.Context) (string, error){k.images.Node, k.images.Echo, k.images.HAProxy}
	for _, r := range k.opts.Rows {
		if r.Own() {
			makers = append(makers, func(ctx context.Context) (string, error) { return k.images.Proxy(ctx, r.Mode) })
		} else {
			makers = append(makers, k.images.KubeProxy)
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

// removeLeftovers removes a cluster of the same name that a run which was
// killed has left, with its load balancers and control server.
func (k *Kind) removeLeftovers(ctx context.Context, cfg kind.Config) error {
	names, err := k.fixture.List()
	if err != nil {
		return err
	}
	if err := k.removeBalancers(ctx); err != nil {
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
	k.installer, err = cluster.NewInstaller(ctx, k.cluster, k.echo, k.log)
	return err
}

// openControl starts the echo server that no dataplane forwards for.
func (k *Kind) openControl(ctx context.Context) error {
	cli, net := k.images.Engine().Client(), k.fixture.Network()
	made, err := cli.ContainerCreate(ctx, &container.Config{
		Image: k.echo, Labels: map[string]string{image.Label: "control", "io.plumbline.cluster": k.opts.Name},
	}, &container.HostConfig{NetworkMode: container.NetworkMode(net.Name)}, nil, nil, k.opts.Name+"-control")
	if err != nil {
		return err
	}
	k.onClose(k.removeBalancers)
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

func (k *Kind) openProvider(ctx context.Context) error {
	if err := raisePriority(); err != nil {
		k.log.Warn("probes may be late", "error", err)
	}
	haproxyImage, err := k.images.HAProxy(ctx)
	if err != nil {
		return err
	}
	net := k.fixture.Network()
	dir := filepath.Join(k.opts.Dir, "lb")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	k.provider, err = StartProvider(ProviderConfig{
		Program: k.images.Program("plumb-lb"), Cluster: k.opts.Name, Dir: dir,
		Args: []string{
			"--kubeconfig=" + k.cluster.Config().Kubeconfig(), "--cluster-name=" + k.opts.Name, "--network=" + net.Name,
			"--lb-range-v4=" + net.V4.LB.String(), "--lb-range-v6=" + net.V6.LB.String(),
			"--image=" + haproxyImage, "--profile=" + k.opts.Profile, "--state-dir=" + lbDir,
		},
	})
	if err != nil {
		return err
	}
	k.onClose(func(context.Context) error { return k.provider.Stop() })
	return nil
}

// lbDir is where the provider of all clusters keeps its load balancers' files.
var lbDir = filepath.Join(StateDir, "lb")

// removeBalancers removes the containers beside the cluster (load balancers,
// control server) and the load balancers' files.
func (k *Kind) removeBalancers(ctx context.Context) error {
	if err := k.removeContainers(ctx, "io.plumbline.cluster="+k.opts.Name); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(lbDir, k.opts.Name)); err != nil {
		return fmt.Errorf("remove the load balancers' files: %w", err)
	}
	_ = os.Remove(lbDir) // unless another cluster's are in it
	return nil
}

// removeContainers removes containers of ours by one of their labels.
func (k *Kind) removeContainers(ctx context.Context, label string) error {
	cli := k.images.Engine().Client()
	list, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: labelFilter(label)})
	if err != nil {
		return fmt.Errorf("list containers labelled %s: %w", label, err)
	}
	for _, c := range list {
		err := cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove container %s: %w", c.Names[0], err)
		}
	}
	return nil
}

// Cluster, LB, Echo and Control are the parts a scenario uses.
func (k *Kind) Cluster() cluster.Cluster { return k.cluster }

// LB is the load balancer in front.
func (k *Kind) LB() scenario.LB { return balancer{k.provider, k.profile} }

// Echo is the workload's image.
func (k *Kind) Echo() string { return k.echo }

// Control is a server that no dataplane forwards for.
func (k *Kind) Control() netip.AddrPort { return k.control }

type balancer struct {
	*Provider
	profile haproxy.Profile
}

// Profile is how the load balancer was configured.
func (b balancer) Profile() report.LB {
	retries := b.profile.Retries
	if retries < 0 {
		retries = 3 // HAProxy's default
	}
	return report.LB{
		Kind: "HAProxy, mode tcp, ipMode Proxy", Profile: b.profile.Name, Interval: b.profile.Inter,
		Fall: b.profile.Fall, Rise: b.profile.Rise, Connect: b.profile.Connect, Client: b.profile.Idle, Server: b.profile.Idle,
		Retries: retries, Balance: "roundrobin",
	}
}
