package planflags_test

import (
	"flag"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/planflags"
)

func options(args ...string) (plan.Options, error) {
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	f := planflags.Register(fs)
	if err := fs.Parse(args); err != nil {
		return plan.Options{}, err
	}
	return f.Options()
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestOptions(t *testing.T) {
	with := func(f func(*plan.Options)) plan.Options {
		o := plan.Options{Terminating: plan.Fallback, NoLocal: plan.Drop, Local: plan.ByClusterCIDR}
		f(&o)
		return o
	}
	for args, want := range map[string]plan.Options{
		"":                               with(func(*plan.Options) {}),
		"--terminating-endpoints=ignore": with(func(o *plan.Options) { o.Terminating = plan.Ignore }),
		"--no-local-endpoints=reject":    with(func(o *plan.Options) { o.NoLocal = plan.Reject }),
		"--masquerade-all":               with(func(o *plan.Options) { o.MasqueradeAll = true }),
		"--cluster-cidr=10.244.7.0/16,fd00:10:244::/56": with(func(o *plan.Options) {
			o.ClusterCIDRs = prefixes("10.244.0.0/16", "fd00:10:244::/56")
		}),
		"--detect-local=NodeCIDR":                 with(func(o *plan.Options) { o.Local = plan.ByNodeCIDR }),
		"--detect-local=BridgeInterface=cni0":     with(func(o *plan.Options) { o.Local, o.LocalLink = plan.ByBridge, "cni0" }),
		"--detect-local=InterfaceNamePrefix=cali": with(func(o *plan.Options) { o.Local, o.LocalLink = plan.ByLinkPrefix, "cali*" }),
		"--nodeport-addresses=primary":            with(func(*plan.Options) {}),
		"--nodeport-addresses=all":                with(func(o *plan.Options) { o.NodePorts.Within = prefixes("0.0.0.0/0", "::/0") }),
		"--nodeport-addresses=192.0.2.9/24,2001:db8::/32": with(func(o *plan.Options) {
			o.NodePorts.Within = prefixes("192.0.2.0/24", "2001:db8::/32")
		}),
	} {
		got, err := options(strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--terminating-endpoints=maybe":                      `--terminating-endpoints "maybe": give fallback or ignore`,
		"--no-local-endpoints=forward":                       `--no-local-endpoints "forward": give drop or reject`,
		"--cluster-cidr=10.244.0.0/16,10.0.0.0":              `--cluster-cidr "10.0.0.0": not a network such as 10.244.0.0/16`,
		"--cluster-cidr=::ffff:10.0.0.0/112":                 `--cluster-cidr "::ffff:10.0.0.0/112": write an IPv4 network as such`,
		"--detect-local=nodecidr":                            `--detect-local "nodecidr": give ClusterCIDR, NodeCIDR, BridgeInterface=NAME or InterfaceNamePrefix=PREFIX`,
		"--detect-local=NodeCIDR=x":                          `--detect-local "NodeCIDR=x": NodeCIDR has no link`,
		"--detect-local=BridgeInterface":                     `--detect-local "BridgeInterface": give the name of a link: 1 to 15 letters, digits or _.:-`,
		"--detect-local=InterfaceNamePrefix=cali+":           `--detect-local "InterfaceNamePrefix=cali+": give what names of links begin with: 1 to 14 letters, digits or _.:-`,
		"--detect-local=InterfaceNamePrefix=cali56789012345": `--detect-local "InterfaceNamePrefix=cali56789012345": give what names of links begin with: 1 to 14 letters, digits or _.:-`,
		"--detect-local=BridgeInterface=br34567890123456":    `--detect-local "BridgeInterface=br34567890123456": give the name of a link: 1 to 15 letters, digits or _.:-`,
		"--nodeport-addresses=":                              `--nodeport-addresses "": give primary, all, or networks such as 192.0.2.0/24`,
		"--nodeport-addresses=primary,192.0.2.0/24":          `--nodeport-addresses "primary,192.0.2.0/24": give primary, all, or networks such as 192.0.2.0/24`,
		"--nodeport-addresses=192.0.2.0/24,192.0.2.1":        `--nodeport-addresses "192.0.2.1": not a network such as 10.244.0.0/16`,
	} {
		if _, err := options(args); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", args, err, want)
		}
	}
}
