package instance

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/containerd/errdefs"
)

// kindCluster is the label kind puts on the containers of its nodes.
const kindCluster = "io.x-k8s.kind.cluster"

// Machine finds the container of a node. It reports false if the cluster has
// no such container.
func (d *Docker) Machine(ctx context.Context, node string) (Machine, bool, error) {
	c, err := d.cli.ContainerInspect(ctx, node)
	if errdefs.IsNotFound(err) {
		return Machine{}, false, nil
	}
	if err != nil {
		return Machine{}, false, fmt.Errorf("look up the container of node %s: %w", node, err)
	}
	if c.Config == nil || c.Config.Labels[kindCluster] != d.opts.Cluster {
		return Machine{}, false, nil
	}
	m := Machine{Running: c.State != nil && c.State.Running}
	if c.NetworkSettings == nil {
		return m, true, nil
	}
	for _, n := range c.NetworkSettings.Networks {
		for _, s := range []string{n.IPAddress, n.GlobalIPv6Address} {
			if a, err := netip.ParseAddr(s); err == nil {
				m.Addrs = append(m.Addrs, a)
			}
		}
	}
	return m, true, nil
}
