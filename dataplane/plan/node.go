package plan

import (
	"net/netip"
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// BuildNode makes the part that all Services share.
func BuildNode(snap *objects.Snapshot, opt Options) Node {
	out := Node{LocalPods: sortedPrefixes(localPods(snap, opt)), LocalLink: opt.LocalLink, Sockets: opt.Sockets}
	for _, c := range snap.ServiceCIDRs {
		out.ServiceCIDRs = append(out.ServiceCIDRs, c.Prefixes...)
	}
	out.ServiceCIDRs = sortedPrefixes(out.ServiceCIDRs)
	if n := snap.Node; n != nil {
		out.Addrs = nodePortAddrs(n.InternalIPs, snap.Local, opt.NodePorts)
	}
	return out
}

// localPods are the networks of pods that count as the node's own.
func localPods(snap *objects.Snapshot, opt Options) []netip.Prefix {
	switch {
	case opt.Local == ByBridge || opt.Local == ByLinkPrefix:
		return nil
	case opt.Local != ByNodeCIDR:
		return opt.ClusterCIDRs
	case snap.Node == nil:
		return nil
	}
	return snap.Node.PodCIDRs
}

// nodePortAddrs are the addresses that node ports are served at: the Node's first
// of each family, or all of the node's inside the networks given.
func nodePortAddrs(node []netip.Addr, local objects.LocalAddrs, at NodePortAddresses) []netip.Addr {
	var out []netip.Addr
	if len(at.Within) == 0 {
		for _, a := range node {
			if !slices.ContainsFunc(out, func(o netip.Addr) bool { return o.Is6() == a.Is6() }) {
				out = append(out, a)
			}
		}
	} else {
		for _, a := range slices.Concat(node, local) {
			if contains(at.Within, a) {
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func sortedPrefixes(in []netip.Prefix) []netip.Prefix {
	out := slices.Clone(in)
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(out)
}
