package agent

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/others"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/spaces"
)

// sysctls looks at those that are not as a node needs them; the agent itself has no right to
// write them (--init-only does).
func sysctls(cfg *Config) backend.Look {
	v6 := IPv6(cfg.Plan)
	return backend.Look{Reason: "SysctlAmiss", Cure: "plumb-proxy --init-only on this node sets it", Amiss: func() (found []string, err error) {
		err = spaces.Do(cfg.NetNS, func() (err error) {
			found, err = node.Amiss("/proc/sys", node.Sysctls(v6))
			return err
		})
		return found, err
	}}
}

// forwarding looks at chains that drop what they do not know: whose they are is no matter.
func forwarding(cfg *Config) backend.Look {
	cure := "what Services' connections are forwarded to needs rules there that accept it, both ways"
	return backend.Look{Reason: "ForwardDropped", Cure: cure, Amiss: func() (found []string, err error) {
		err = spaces.Do(cfg.NetNS, func() (err error) {
			found, err = others.ForwardDrops(others.Config{})
			return err
		})
		for i, chain := range found {
			found[i] = chain + " drops forwarded packets that none of its rules accepts"
		}
		return found, err
	}}
}

// atSockets looks at programs of others that run at the sockets of the node, for they are attached to a cgroup
// that the node's is in: what they do comes after what the backend's do.
func atSockets(cgroup string) backend.Look {
	cure := "who attached them is to leave this node's cgroup out, or --sockets=off: then devices translate what pods begin, and the node's own connections are not served"
	return backend.Look{Reason: "SocketProgramsAbove", Cure: cure, Amiss: func() ([]string, error) {
		_, above, err := others.AtSockets(cgroup)
		if err != nil || len(above) == 0 {
			return nil, err
		}
		return []string{"of cgroups above the node's run at its sockets too, and may deny calls or replace addresses: " + strings.Join(above, ", ")}, nil
	}}
}

// IPv6 tells whether a node with such options forwards IPv6.
func IPv6(o plan.Options) bool {
	return slices.ContainsFunc(o.ClusterCIDRs, func(p netip.Prefix) bool { return p.Addr().Is6() })
}
