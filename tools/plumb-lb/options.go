package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
)

// options are the checked flags.
type options struct {
	kubeconfig string
	cluster    string
	network    string
	ranges     map[lbplan.Family]netip.Prefix
	image      string
	profile    haproxy.Profile
	stateDir   string // of this cluster
	records    string
	verbosity  int
}

// level maps klog's verbosity: V(n) is slog level -n.
func (o options) level() slog.Level {
	if o.verbosity == 0 {
		return slog.LevelInfo
	}
	return slog.Level(-max(4, o.verbosity))
}

// flags holds the texts before they are checked.
type flags struct {
	options
	v4, v6, profile, stateDir string
}

func (f *flags) set() *flag.FlagSet {
	fs := flag.NewFlagSet("plumb-lb", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to serve")
	fs.StringVar(&f.cluster, "cluster-name", "plumbline", "name of the kind cluster; containers carry it as a label")
	fs.StringVar(&f.network, "network", "plumbline", "docker network of the nodes, with subnets of its own")
	fs.StringVar(&f.v4, "lb-range-v4", "", "IPv4 addresses for load balancers: a CIDR within a subnet of the network")
	fs.StringVar(&f.v6, "lb-range-v6", "", "IPv6 addresses for load balancers, likewise")
	fs.StringVar(&f.image, "image", "plumbline/haproxy:local", "image of the load balancer")
	fs.StringVar(&f.profile, "profile", "l4-strict", "behaviour of the load balancer: "+strings.Join(profileNames(), " or "))
	fs.StringVar(&f.stateDir, "state-dir", "/run/plumbline/lb", "configurations and sockets of the load balancers")
	fs.StringVar(&f.records, "records", "", "directory for conns.jsonl and lb-events.jsonl (default: not kept)")
	fs.IntVar(&f.verbosity, "v", 0, "verbosity of the log, as in Kubernetes")
	return fs
}

func profileNames() []string { return slices.Sorted(maps.Keys(haproxy.Profiles())) }

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: plumb-lb --kubeconfig FILE --lb-range-v4 CIDR [flags]")
	fs := new(flags).set()
	fs.SetOutput(w)
	fs.PrintDefaults()
}

func parse(args []string) (options, error) {
	var f flags
	fs := f.set()
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return f.check()
}

// maxSocketPath is what a unix socket's address holds (unix(7): 108 with the
// final zero).
const maxSocketPath = 107

func (f *flags) check() (options, error) {
	o := f.options
	if o.kubeconfig == "" {
		return o, fmt.Errorf("--kubeconfig is missing")
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,49}$`).MatchString(o.cluster) {
		return o, fmt.Errorf("--cluster-name %q is not a name of a kind cluster", o.cluster)
	}
	var ok bool
	if o.profile, ok = haproxy.Profiles()[f.profile]; !ok {
		return o, fmt.Errorf("--profile %q is unknown: %s", f.profile, strings.Join(profileNames(), " or "))
	}
	o.ranges = map[lbplan.Family]netip.Prefix{}
	for family, text := range map[lbplan.Family]string{lbplan.V4: f.v4, lbplan.V6: f.v6} {
		if text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil || lbplan.FamilyOf(p.Addr()) != family || p.Addr().Is4In6() {
			return o, fmt.Errorf("--lb-range-%s %q is not a CIDR of this family", family, text)
		}
		o.ranges[family] = p.Masked()
	}
	if len(o.ranges) == 0 {
		return o, fmt.Errorf("--lb-range-v4 or --lb-range-v6 is needed")
	}
	dir, err := filepath.Abs(f.stateDir)
	if err != nil {
		return o, fmt.Errorf("--state-dir %q: %w", f.stateDir, err)
	}
	o.stateDir = filepath.Join(dir, o.cluster)
	if longest := filepath.Join(o.stateDir, "plumbline-lb-0123456789ab", haproxy.MasterSocket); len(longest) > maxSocketPath {
		return o, fmt.Errorf("--state-dir %q is too long: sockets in it would have %d bytes, %d are possible", f.stateDir, len(longest), maxSocketPath)
	}
	return o, nil
}
