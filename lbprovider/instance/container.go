package instance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
)

// Matches says whether the container still is what Start would make of s.
func (d *Docker) Matches(i Instance, s Spec) bool { return i.digest == d.digest(s) }

// digest covers all that cannot be changed in a container that exists.
func (d *Docker) digest(s Spec) string {
	h := sha256.New()
	fmt.Fprintln(h, layout, d.imageID, d.opts.Network, s.Dir, s.Addrs, s.Owner, s.UID)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// List returns the load balancers of this cluster, running or not.
func (d *Docker) List(ctx context.Context) ([]Instance, error) { return d.list(ctx, d.filter()) }

func (d *Docker) list(ctx context.Context, f filters.Args) ([]Instance, error) {
	cs, err := d.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		return nil, fmt.Errorf("list load-balancer containers: %w", err)
	}
	var out []Instance
	for _, c := range cs {
		i := Instance{
			Service: c.Labels[labelService],
			UID:     c.Labels[labelUID],
			Running: c.State == container.StateRunning,
			Stopped: c.State == container.StateExited || c.State == container.StateDead,
			digest:  c.Labels[labelSpec],
		}
		if len(c.Names) > 0 {
			i.Name = strings.TrimPrefix(c.Names[0], "/")
		}
		for s := range strings.SplitSeq(c.Labels[labelAddrs], ",") {
			if a, err := netip.ParseAddr(s); err == nil {
				i.Addrs = append(i.Addrs, a)
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// Start makes and starts the container of s. If it cannot be started, nothing
// is left of it.
func (d *Docker) Start(ctx context.Context, s Spec) error {
	made, err := d.cli.ContainerCreate(ctx, d.config(s), hostConfig(s), d.networking(s), nil, s.Name)
	if err != nil {
		return fmt.Errorf("create container %s: %w", s.Name, err)
	}
	if err := d.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		err = fmt.Errorf("start container %s with address %v: %w", s.Name, s.Addrs, err)
		return errors.Join(err, d.Stop(context.WithoutCancel(ctx), s.Name))
	}
	return nil
}

func (d *Docker) config(s Spec) *container.Config {
	addrs := make([]string, len(s.Addrs))
	for i, a := range s.Addrs {
		addrs[i] = a.String()
	}
	labels := map[string]string{
		labelRole: role, labelCluster: d.opts.Cluster, labelScope: d.opts.Scope, labelService: s.Service, labelUID: s.UID,
		labelAddrs: strings.Join(addrs, ","), labelSpec: d.digest(s),
	}
	if d.opts.Run != "" {
		labels[labelRun] = d.opts.Run
	}
	return &container.Config{
		Image:      d.imageID,
		User:       s.Owner,
		Entrypoint: append([]string{"haproxy"}, command(RunDir)...),
		Cmd:        []string{},
		Labels:     labels,
	}
}

// hostConfig takes from the container all that HAProxy does not need. Ports
// below 1024 are bound by a sysctl of its own network namespace instead of a
// capability.
func hostConfig(s Spec) *container.HostConfig {
	pids := int64(128) // one process per reload that still has connections
	return &container.HostConfig{
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyAlways},
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		ReadonlyRootfs: true,
		Sysctls:        map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
		Mounts:         []mount.Mount{{Type: mount.TypeBind, Source: s.Dir, Target: RunDir}},
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "2"}},
		Resources:      container.Resources{Memory: 512 << 20, PidsLimit: &pids},
	}
}

func (d *Docker) networking(s Spec) *network.NetworkingConfig {
	ipam := &network.EndpointIPAMConfig{}
	for _, a := range s.Addrs {
		if a.Is4() {
			ipam.IPv4Address = a.String()
		} else {
			ipam.IPv6Address = a.String()
		}
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		d.opts.Network: {IPAMConfig: ipam},
	}}
}

// Stop removes a container of this cluster with its connections. One that is
// not there is fine.
func (d *Docker) Stop(ctx context.Context, name string) error {
	err := d.cli.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", name, err)
	}
	return nil
}

// ComeFirst does nothing: who comes before whom in containers is Docker's to say.
func (*Docker) ComeFirst(string) {}
