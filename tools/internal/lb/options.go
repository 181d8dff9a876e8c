package lb

import (
	"cmp"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline/plumbline/lbprovider/haproxy"
	"github.com/plumbline/plumbline/lbprovider/instance"
	"github.com/plumbline/plumbline/lbprovider/lbplan"
	"github.com/plumbline/plumbline/lbprovider/profile"
	"github.com/plumbline/plumbline/tools/internal/call"
)

// Values of --instances.
const (
	kindDocker = "docker"
	kindNetns  = "netns"
	kindHost   = "host"
)

// options are the checked flags.
type options struct {
	kubeconfig string
	namespace  string // of the Services to serve; empty: all
	class      string // of the Services to serve; empty: those without
	scope      string // of what it serves (scopeOf)
	instances  string
	cluster    string
	run        string                         // docker
	network    string                         // docker
	image      string                         // docker
	wire       string                         // netns
	bridge     string                         // netns
	program    string                         // netns, host
	nets       map[lbplan.Family]netip.Prefix // netns
	ranges     map[lbplan.Family]netip.Prefix
	profile    profile.Profile
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
	v4, v6, wireV4, wireV6, profile, stateDir string
}

func (f *flags) set() *flag.FlagSet {
	fs := call.Flags("plumb-lb")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to serve")
	fs.StringVar(&f.namespace, "namespace", "", "serve the Services of this namespace only, e.g. in a cluster of somebody else")
	fs.StringVar(&f.class, "lb-class", "", "serve the Services of this spec.loadBalancerClass, e.g. beside the load balancers of a cloud (default: those without a class)")
	fs.StringVar(&f.instances, "instances", "docker", "what load balancers are: docker (containers), netns (processes in network namespaces), host (processes on loopback addresses)")
	fs.StringVar(&f.cluster, "cluster-name", "plumbline", "name of the kind cluster (docker) or of the lab (netns); load balancers carry it")
	fs.StringVar(&f.run, "run", "", "docker: `id` of the run that load balancers belong to, the value of their label io.plumbline.run; clean removes those of a run that has ended (default: none; clean removes them with the network plumbline)")
	fs.StringVar(&f.v4, "lb-range-v4", "", "IPv4 addresses for load balancers: a CIDR within a subnet of the network, or of 127.0.0.0/8 (host)")
	fs.StringVar(&f.v6, "lb-range-v6", "", "IPv6 addresses for load balancers, likewise; not with host")
	fs.StringVar(&f.network, "network", "plumbline", "docker: network of the nodes, with subnets of its own")
	fs.StringVar(&f.image, "image", "plumbline/haproxy:local", "docker: image of the load balancer")
	fs.StringVar(&f.wire, "wire", "", "netns: network namespace of the bridge that nodes and load balancers share")
	fs.StringVar(&f.bridge, "bridge", "br0", "netns: name of that bridge")
	fs.StringVar(&f.wireV4, "wire-v4", "", "netns: IPv4 network on that bridge, a CIDR; gives load balancers their prefix length")
	fs.StringVar(&f.wireV6, "wire-v6", "", "netns: IPv6 network on that bridge, likewise")
	fs.StringVar(&f.program, "haproxy", "haproxy", "netns, host: program of the load balancer")
	fs.StringVar(&f.profile, "profile", "l4-strict", "behaviour of the load balancer: "+profile.Usage())
	fs.StringVar(&f.stateDir, "state-dir", "", "configurations and sockets of the load balancers, of this cluster, namespace and class alone, and always the same for one --cluster-name (default: a folder of the cluster's name in "+lbDir+")")
	fs.StringVar(&f.records, "records", "", "directory for conns.jsonl and lb-events.jsonl (default: not kept)")
	fs.IntVar(&f.verbosity, "v", 0, "verbosity of the log, as in Kubernetes")
	return fs
}

// belongs says with which --instances a flag goes; those not listed go with all.
func belongs() map[string][]string {
	return map[string][]string{
		"network": {kindDocker}, "image": {kindDocker}, "run": {kindDocker},
		"wire": {kindNetns}, "bridge": {kindNetns}, "wire-v4": {kindNetns}, "wire-v6": {kindNetns},
		"haproxy": {kindNetns, kindHost}, "lb-range-v6": {kindDocker, kindNetns},
	}
}

func parse(args []string) (options, error) {
	var f flags
	fs := f.set()
	if err := call.Parse(fs, "plumb-lb --kubeconfig FILE --lb-range-v4 CIDR [flags]", args); err != nil {
		return options{}, err
	}
	if fs.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var misplaced []string
	fs.Visit(func(given *flag.Flag) {
		if kinds, ok := belongs()[given.Name]; ok && !slices.Contains(kinds, f.instances) {
			misplaced = append(misplaced, "--"+given.Name)
		}
	})
	o, err := f.check()
	if err == nil && len(misplaced) > 0 {
		err = fmt.Errorf("%s does not go with --instances %s", strings.Join(misplaced, ", "), o.instances)
	}
	return o, err
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
		return o, fmt.Errorf("--cluster-name %q is not a name of a cluster", o.cluster)
	}
	if problems := validation.IsQualifiedName(o.class); o.class != "" && len(problems) > 0 {
		return o, fmt.Errorf("--lb-class %q is not a class of load balancers: %s", o.class, problems[0])
	}
	var err error
	if o.profile, err = profile.Parse(f.profile); err != nil {
		return o, fmt.Errorf("--profile: %w", err)
	}
	if o.ranges, err = prefixes("lb-range", f.v4, f.v6); err != nil {
		return o, err
	}
	if len(o.ranges) == 0 {
		return o, fmt.Errorf("--lb-range-v4 or --lb-range-v6 is needed")
	}
	if o.nets, err = prefixes("wire", f.wireV4, f.wireV6); err != nil {
		return o, err
	}
	if err := o.checkInstances(); err != nil {
		return o, err
	}
	return f.checkStateDir(o)
}

func (o options) checkInstances() error {
	switch {
	case !slices.Contains([]string{kindDocker, kindNetns, kindHost}, o.instances):
		return fmt.Errorf("--instances %q is unknown; known: %s, %s, %s", o.instances, kindDocker, kindNetns, kindHost)
	case o.instances == kindNetns && o.wire == "":
		return fmt.Errorf("--wire is missing: the network namespace of the bridge")
	}
	for family := range o.ranges {
		if _, ok := o.nets[family]; !ok && o.instances == kindNetns {
			return fmt.Errorf("--wire-%s is missing: the network that --lb-range-%s is in", family, family)
		}
	}
	return nil
}

// prefixes reads --FLAG-v4 and --FLAG-v6, where they are given.
func prefixes(flag, v4, v6 string) (map[lbplan.Family]netip.Prefix, error) {
	out := map[lbplan.Family]netip.Prefix{}
	for family, text := range map[lbplan.Family]string{lbplan.V4: v4, lbplan.V6: v6} {
		if text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil || lbplan.FamilyOf(p.Addr()) != family || p.Addr().Is4In6() {
			return nil, fmt.Errorf("--%s-%s %q is not a CIDR of this family", flag, family, text)
		}
		out[family] = p.Masked()
	}
	return out, nil
}

// lbDir has a folder of each cluster, unless a flag says otherwise.
const lbDir = "/run/plumbline/lb"

func (f *flags) checkStateDir(o options) (_ options, err error) {
	if o.stateDir, err = filepath.Abs(cmp.Or(f.stateDir, filepath.Join(lbDir, o.cluster))); err != nil {
		return o, fmt.Errorf("--state-dir %q: %w", f.stateDir, err)
	}
	longest := filepath.Join(o.stateDir, instance.NamePrefix+"0123456789ab", haproxy.MasterSocket)
	if o.instances != kindDocker {
		longest += ".1234567.tmp" // HAProxy binds PATH.PID.tmp and renames it (src/sock_unix.c); in a container the path is short
	}
	if len(longest) > maxSocketPath {
		return o, fmt.Errorf("--state-dir %q is too long: sockets in it would have %d bytes, %d are possible", o.stateDir, len(longest), maxSocketPath)
	}
	return o, nil
}
