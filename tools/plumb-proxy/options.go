package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/dataplane/plan"
)

type options struct {
	node       string
	kubeconfig string
	backend    string
	healthz    string
	plan       plan.Options
	level      slog.Level
	initOnly   bool
	cleanup    bool
	version    bool
}

// helpWanted is the text of --help.
type helpWanted string

func (h helpWanted) Error() string { return "help" }

// parse reads the command line. Every error is one line that says what is
// wrong, where, and what would be right.
func parse(args []string, env func(string) string) (options, error) {
	var o options
	var terminating, noLocal, cidrs string
	fs := flag.NewFlagSet("plumb-proxy", flag.ContinueOnError)
	var text strings.Builder
	fs.SetOutput(&text)
	fs.Usage = func() {}
	fs.StringVar(&o.node, "node-name", env("NODE_NAME"), "`name` of the own Node (default: $NODE_NAME)")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: the Pod's own account")
	fs.StringVar(&o.backend, "backend", "nftables", "dataplane: "+strings.Join(backendNames(), ", "))
	fs.StringVar(&cidrs, "cluster-cidr", "", "pod networks of the whole cluster, `list` separated by commas; packets to a ClusterIP from elsewhere are masqueraded")
	fs.StringVar(&terminating, "terminating-endpoints", string(plan.Fallback), "without a ready endpoint: fallback (use serving, terminating ones, KEP-1669) or ignore (as before Kubernetes 1.26)")
	fs.StringVar(&noLocal, "no-local-endpoints", string(plan.Drop), "under external traffic policy Local, when all endpoints are elsewhere: drop or reject")
	fs.StringVar(&o.healthz, "healthz-bind-address", "[::]:10256", "`address` of /healthz and /livez; [::] serves IPv4 too, empty: none")
	fs.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	fs.BoolVar(&o.initOnly, "init-only", false, "write the sysctls that the agent itself has no right to (for IPv6 only with an IPv6 --cluster-cidr), and exit")
	fs.BoolVar(&o.cleanup, "cleanup", false, "remove everything this backend put into the kernel, and exit")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.PrintDefaults()
			return o, helpWanted("usage: plumb-proxy [flags]\n" + text.String())
		}
		return o, fmt.Errorf("%w; see --help", err)
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; there are only flags, see --help", fs.Arg(0))
	}
	if o.version {
		return o, nil
	}
	if err := o.check(cidrs, terminating, noLocal); err != nil {
		return o, err
	}
	return o, nil
}

func (o *options) check(cidrs, terminating, noLocal string) error {
	if _, ok := backends()[o.backend]; !ok {
		return fmt.Errorf("--backend %q: there is no such backend; one of: %s", o.backend, strings.Join(backendNames(), ", "))
	}
	if o.initOnly && o.cleanup {
		return errors.New("--init-only and --cleanup contradict each other; give one")
	}
	o.plan.Node = o.node
	o.plan.Terminating = plan.Terminating(terminating)
	if o.plan.Terminating != plan.Fallback && o.plan.Terminating != plan.Ignore {
		return fmt.Errorf("--terminating-endpoints %q: give fallback or ignore", terminating)
	}
	o.plan.NoLocal = plan.Action(noLocal)
	if o.plan.NoLocal != plan.Drop && o.plan.NoLocal != plan.Reject {
		return fmt.Errorf("--no-local-endpoints %q: give drop or reject", noLocal)
	}
	for _, text := range strings.FieldsFunc(cidrs, func(r rune) bool { return r == ',' || r == ' ' }) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("--cluster-cidr %q: not a network such as 10.244.0.0/16", text)
		}
		o.plan.ClusterCIDRs = append(o.plan.ClusterCIDRs, p.Masked())
	}
	if o.healthz != "" {
		if !bindAddress(o.healthz) {
			return fmt.Errorf("--healthz-bind-address %q: not an IP address and a port from 1 to 65535, such as [::]:10256", o.healthz)
		}
	}
	if o.node == "" && !o.initOnly && !o.cleanup {
		return errors.New("--node-name is not given and $NODE_NAME is empty; name the Node this runs on")
	}
	return nil
}

// bindAddress tells whether a text is an IP address, or nothing for all of them,
// and the number of a port.
func bindAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return false
	}
	if host == "" {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

func backendNames() []string { return slices.Sorted(maps.Keys(backends())) }
