// Package planflags reads plan.Options from the command line, for every program
// that makes plans. It does no I/O.
//
//	Register(flags) -> (flags.Parse) -> Options
//
// The own Node's name and SCTP are not among them: programs learn these in ways
// of their own.
package planflags

import (
	"flag"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

// Flags are the values as they were given.
type Flags struct {
	clusterCIDR, detectLocal, terminating, noLocal, nodePorts string
	masqueradeAll                                             bool
}

// Register adds the flags to a set.
func Register(fs *flag.FlagSet) *Flags {
	f := &Flags{}
	fs.StringVar(&f.clusterCIDR, "cluster-cidr", "", "pod networks of the whole cluster, `list` separated by commas")
	fs.StringVar(&f.detectLocal, "detect-local", string(plan.ByClusterCIDR), "which pods count as the node's own (external traffic policy Local lets them reach all endpoints; what others send to a ClusterIP is masqueraded): ClusterCIDR (all of --cluster-cidr), NodeCIDR (those in the Node's podCIDRs; not with a CNI plugin that has addresses of its own), BridgeInterface=`NAME` or InterfaceNamePrefix=PREFIX (those whose packets come by such a link)")
	fs.BoolVar(&f.masqueradeAll, "masquerade-all", false, "masquerade every connection to a ClusterIP, not only those that are not from a pod: where answers do not come back through this node")
	fs.StringVar(&f.terminating, "terminating-endpoints", string(plan.Fallback), "without a ready endpoint: fallback (use serving, terminating ones, KEP-1669) or ignore (as before Kubernetes 1.26)")
	fs.StringVar(&f.noLocal, "no-local-endpoints", string(plan.Drop), "under external traffic policy Local, when all endpoints are elsewhere: drop or reject")
	fs.StringVar(&f.nodePorts, "nodeport-addresses", primary, "where node ports are served: primary (the Node's first address of each family), all, or a `list` of networks separated by commas (the node's addresses inside them)")
	return f
}

// The words that --nodeport-addresses knows beside networks.
const (
	primary = "primary"
	all     = "all"
)

// Options are those that the flags ask for. An error is one line that names the
// flag and says what would be right.
func (f *Flags) Options() (plan.Options, error) {
	out := plan.Options{Terminating: plan.Terminating(f.terminating), NoLocal: plan.Action(f.noLocal), MasqueradeAll: f.masqueradeAll}
	var err error
	if out.Local, out.LocalLink, err = DetectLocal(f.detectLocal); err != nil {
		return plan.Options{}, fmt.Errorf("--detect-local %w", err)
	}
	if out.Terminating != plan.Fallback && out.Terminating != plan.Ignore {
		return plan.Options{}, fmt.Errorf("--terminating-endpoints %q: give fallback or ignore", f.terminating)
	}
	if out.NoLocal != plan.Drop && out.NoLocal != plan.Reject {
		return plan.Options{}, fmt.Errorf("--no-local-endpoints %q: give drop or reject", f.noLocal)
	}
	if out.ClusterCIDRs, err = networks(f.clusterCIDR); err != nil {
		return plan.Options{}, fmt.Errorf("--cluster-cidr %w", err)
	}
	out.NodePorts, err = nodePorts(f.nodePorts)
	return out, err
}

// What names of links are made of in practice: they have 15 bytes (IFNAMSIZ), and what they begin
// with has 14, for iptables takes that with a plus sign.
var (
	linkName   = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,15}$`)
	linkPrefix = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,14}$`)
)

// DetectLocal reads MODE or MODE=LINK. The error begins with the text.
func DetectLocal(text string) (plan.DetectLocal, plan.Link, error) {
	mode, name, named := strings.Cut(text, "=")
	by, link := plan.DetectLocal(mode), plan.Link(name)
	switch by {
	case plan.ByClusterCIDR, plan.ByNodeCIDR:
		if named {
			return "", "", fmt.Errorf("%q: %s has no link", text, mode)
		}
	case plan.ByBridge:
		if !linkName.MatchString(name) {
			return "", "", fmt.Errorf("%q: give the name of a link: 1 to 15 letters, digits or _.:-", text)
		}
	case plan.ByLinkPrefix:
		if !linkPrefix.MatchString(name) {
			return "", "", fmt.Errorf("%q: give what names of links begin with: 1 to 14 letters, digits or _.:-", text)
		}
		link += "*"
	default:
		return "", "", fmt.Errorf("%q: give ClusterCIDR, NodeCIDR, BridgeInterface=NAME or InterfaceNamePrefix=PREFIX", text)
	}
	return by, link, nil
}

func nodePorts(text string) (plan.NodePortAddresses, error) {
	switch text {
	case primary:
		return plan.NodePortAddresses{}, nil
	case all:
		return plan.NodePortAddresses{Within: []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}}, nil
	}
	list := fields(text)
	if len(list) == 0 || slices.Contains(list, primary) || slices.Contains(list, all) {
		return plan.NodePortAddresses{}, fmt.Errorf("--nodeport-addresses %q: give primary, all, or networks such as 192.0.2.0/24", text)
	}
	within, err := networks(text)
	if err != nil {
		return plan.NodePortAddresses{}, fmt.Errorf("--nodeport-addresses %w", err)
	}
	return plan.NodePortAddresses{Within: within}, nil
}

// networks reads a list; the error begins with the text that is none.
func networks(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, one := range fields(text) {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			return nil, fmt.Errorf("%q: not a network such as 10.244.0.0/16", one)
		}
		if p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q: write an IPv4 network as such", one)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
