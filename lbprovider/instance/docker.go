package instance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// RunDir is where a container sees its directory.
const RunDir = "/run/lb"

// Labels of every container made here; the run's, where it is one's.
const (
	labelRun     = "io.plumbline.run"
	labelRole    = "io.plumbline.role"
	labelCluster = "io.plumbline.cluster"
	labelScope   = "io.plumbline.scope"
	labelService = "io.plumbline.service"
	labelUID     = "io.plumbline.service-uid"
	labelAddrs   = "io.plumbline.addresses"
	labelSpec    = "io.plumbline.spec"

	role = "lb"
)

// Options choose where containers go. Constant after New.
type Options struct {
	Cluster string
	Scope   string // of what is served: containers of another are not listed
	Run     string // by whose id the containers are known; empty: nobody's
	Network string
	Image   string
	Ranges  []netip.Prefix // the addresses given out come from these
}

// Docker runs load balancers as containers. It is the memory itself: everything
// needed to find a container again, and to see whether it still is what it
// should be, is in its labels.
type Docker struct {
	cli     *client.Client
	opts    Options
	imageID string
	subnets []netip.Prefix
	// Note is a remark on the network for the log; empty if all is well.
	Note string
}

// New connects to the Docker engine of the environment and checks that the
// network, its ranges and the image are there. Each error is one line that
// says what is missing.
func New(ctx context.Context, o Options) (*Docker, error) {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("set up the Docker client: %w", err)
	}
	d := &Docker{cli: cli, opts: o}
	if err := d.check(ctx); err != nil {
		return nil, errors.Join(err, cli.Close())
	}
	return d, nil
}

// Close lets go of the connection; containers stay.
func (d *Docker) Close() error { return d.cli.Close() }

func (d *Docker) check(ctx context.Context) error {
	if _, err := d.cli.Ping(ctx); err != nil {
		return fmt.Errorf("no Docker engine answers at %s: start dockerd or set DOCKER_HOST (%w)", d.cli.DaemonHost(), err)
	}
	if !strings.HasPrefix(d.cli.DaemonHost(), "unix://") {
		return fmt.Errorf("the Docker engine at %s is not on this host: its containers could not share a directory with it", d.cli.DaemonHost())
	}
	img, err := d.cli.ImageInspect(ctx, d.opts.Image)
	if err != nil {
		return fmt.Errorf("image %s is not in Docker: build it from fixtures/image/haproxy (%w)", d.opts.Image, err)
	}
	d.imageID = img.ID
	n, err := d.cli.NetworkInspect(ctx, d.opts.Network, network.InspectOptions{})
	if err != nil {
		return fmt.Errorf("docker network %s is not there: create it with explicit subnets (%w)", d.opts.Network, err)
	}
	return d.checkRanges(n)
}

func (d *Docker) checkRanges(n network.Inspect) error {
	for _, c := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil {
			d.subnets = append(d.subnets, p.Masked())
		}
	}
	for _, r := range d.opts.Ranges {
		if !slices.ContainsFunc(d.subnets, func(s netip.Prefix) bool { return s.Contains(r.Addr()) && r.Bits() >= s.Bits() }) {
			return fmt.Errorf("load-balancer range %s is not within a subnet of docker network %s (%v)", r, n.Name, d.subnets)
		}
		for _, c := range n.IPAM.Config {
			if dyn, err := netip.ParsePrefix(c.IPRange); err == nil && dyn.Overlaps(r) {
				d.Note = fmt.Sprintf("docker gives out addresses of %s by itself, which overlaps the load-balancer range %s", dyn, r)
			}
		}
	}
	return nil
}

func (d *Docker) filter() filters.Args {
	return filters.NewArgs(
		filters.Arg("label", labelRole+"="+role),
		filters.Arg("label", labelCluster+"="+d.opts.Cluster),
		filters.Arg("label", labelScope+"="+d.opts.Scope),
	)
}

// Taken maps every address in use on the network to who uses it: running
// containers, gateways, and load balancers that are not running just now (of
// any cluster on the network).
func (d *Docker) Taken(ctx context.Context) (map[netip.Addr]string, error) {
	n, err := d.cli.NetworkInspect(ctx, d.opts.Network, network.InspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the addresses of docker network %s: %w", d.opts.Network, err)
	}
	taken := map[netip.Addr]string{}
	for _, c := range n.IPAM.Config {
		if a, err := netip.ParseAddr(c.Gateway); err == nil {
			taken[a] = "the network's gateway"
		}
	}
	for _, c := range n.Containers {
		for _, s := range []string{c.IPv4Address, c.IPv6Address} {
			if p, err := netip.ParsePrefix(s); err == nil {
				taken[p.Addr()] = c.Name
			}
		}
	}
	all, err := d.list(ctx, filters.NewArgs(filters.Arg("label", labelRole+"="+role), filters.Arg("network", d.opts.Network)))
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		for _, a := range i.Addrs {
			taken[a] = i.Name
		}
	}
	return taken, nil
}
