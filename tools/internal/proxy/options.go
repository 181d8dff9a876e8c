package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/plumbline/plumbline/ci/version"
	"github.com/plumbline/plumbline/dataplane/agent"
	"github.com/plumbline/plumbline/dataplane/backend"
	"github.com/plumbline/plumbline/dataplane/conntrack"
	"github.com/plumbline/plumbline/dataplane/kubeproxy"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/planflags"
	"github.com/plumbline/plumbline/tools/internal/call"
)

type options struct {
	node       string
	kubeconfig string
	backend    string
	healthz    string
	metrics    string
	debug      string
	plan       plan.Options
	own        backendFlags
	limits     *node.Limits
	resetTCP   bool
	level      slog.Level
	initOnly   bool
	cleanup    bool
	takeOver   string // kube-proxy, or nothing
}

// The default addresses are kube-proxy's.
const (
	defaultHealthz = "[::]:10256"
	defaultMetrics = "127.0.0.1:10249"
)

const usage = `plumb-proxy [flags]
       plumb-proxy show services|backends|path FRONTEND
       plumb-proxy look [flags]`

// parse reads the command line. Every error is one line that says what is
// wrong, where, and what would be right.
func parse(args []string, env func(string) string) (options, error) {
	var o options
	fs := call.Flags("plumb-proxy")
	fs.StringVar(&o.node, "node-name", env("NODE_NAME"), "`name` of the own Node (default: $NODE_NAME)")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty: the Pod's own account")
	fs.StringVar(&o.backend, "backend", "nftables", "dataplane: "+strings.Join(backendNames(), ", "))
	plans := planflags.Register(fs)
	o.own.register(fs)
	fs.StringVar(&o.healthz, "healthz-bind-address", defaultHealthz, "`address` of /healthz and /livez; [::] serves IPv4 too, empty: none")
	fs.StringVar(&o.metrics, "metrics-bind-address", defaultMetrics, "`address` of /metrics and /proxyMode; empty: none")
	fs.StringVar(&o.debug, "debug-socket", agent.DebugSocket, "abstract unix `socket` of what show asks, by root; empty: none")
	fs.BoolVar(&o.resetTCP, "reset-tcp-connections", false, fmt.Sprintf("reset TCP connections, at both sides, to endpoints that no EndpointSlice of a Service has named for %s; with --backend ebpf those of the node's own sockets, and with --pod-namespaces of pods'", conntrack.Grace))
	fs.TextVar(&o.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	fs.BoolVar(&o.initOnly, "init-only", false, "write the sysctls that the agent itself has no right to (for IPv6 only with an IPv6 --cluster-cidr), with --backend ebpf mount a bpffs and reserve its ports too, and exit")
	o.limits = node.RegisterLimits(fs)
	fs.BoolVar(&o.cleanup, "cleanup", false, "remove everything that this program put into the kernel, by whatever backend, and exit")
	fs.StringVar(&o.takeOver, "take-over", "", "kube-proxy: take away what it left on this node, once the own rules are in, or with --cleanup; refused while it runs")
	if err := call.Parse(fs, usage, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; there are only flags and, as the first word, show or look; see plumb-proxy --help", fs.Arg(0))
	}
	var err error
	if o.plan, err = plans.Options(); err != nil {
		return o, err
	}
	o.plan.Node = o.node
	if err := o.limits.Check(fs, o.initOnly); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	return o, o.own.check(fs, o.backend)
}

func (o *options) check() error {
	if !slices.Contains(backendNames(), o.backend) {
		return fmt.Errorf("--backend %q: there is no such backend; one of: %s", o.backend, strings.Join(backendNames(), ", "))
	}
	if o.takeOver != "" && o.takeOver != kubeproxy.Name {
		return fmt.Errorf("--take-over %q: give %s", o.takeOver, kubeproxy.Name)
	}
	if o.initOnly && o.takeOver != "" {
		return errors.New("--init-only takes nothing over; give --take-over to the agent")
	}
	if o.initOnly && o.cleanup {
		return errors.New("--init-only and --cleanup contradict each other; give one")
	}
	if o.healthz != "" && !bindAddress(o.healthz) {
		return fmt.Errorf("--healthz-bind-address %q: not an IP address and a port from 1 to 65535, such as %s", o.healthz, defaultHealthz)
	}
	if o.metrics != "" && !bindAddress(o.metrics) {
		return fmt.Errorf("--metrics-bind-address %q: not an IP address and a port from 1 to 65535, such as %s", o.metrics, defaultMetrics)
	}
	if o.debug != "" && !abstractSocket(o.debug) {
		return badSocket(o.debug)
	}
	if own := backend.All(0)[o.backend]; o.resetTCP && own.Keeps != backend.Conntrack && !own.Sockets {
		return fmt.Errorf("--reset-tcp-connections: conntrack does not know where backend %s sends connections", o.backend)
	}
	if o.resetTCP && o.own.sockets == socketsOff {
		return fmt.Errorf("--reset-tcp-connections: it resets sockets, and with --sockets=%s none is translated", socketsOff)
	}
	if o.node == "" && !o.initOnly && !o.cleanup {
		return errors.New("--node-name is not given and $NODE_NAME is empty; name the Node this runs on")
	}
	return nil
}

// abstractSocket tells whether a text names one, as ss(8) writes it.
func abstractSocket(text string) bool { return len(text) > 1 && len(text) < 108 && text[0] == '@' }

func badSocket(text string) error {
	return fmt.Errorf("--debug-socket %q: give an abstract unix socket, such as %s", text, agent.DebugSocket)
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

// kubeProxy is it as something that was on the node before, to be taken away or named.
func (o *options) kubeProxy() backend.Backend {
	b := backend.Backend{Left: func() ([]string, error) { return kubeproxy.Left(0) }, Keeps: backend.Conntrack}
	if o.takeOver == kubeproxy.Name {
		b.Clean = func() error { return kubeproxy.Clean(0) }
	}
	return b
}

// config is an agent as the command line has it, without a client.
func (o *options) config(log *slog.Logger) agent.Config {
	others := backend.All(0)
	own := others[o.backend]
	delete(others, o.backend)
	others[kubeproxy.Name] = o.kubeProxy()
	cfg := agent.Config{
		Node: o.node, Version: version.String(), Mode: o.backend, Backend: own, Others: others, Own: o.own.options(), Plan: o.plan,
		Healthz: o.healthz, Metrics: o.metrics, Debug: o.debug, Logger: log,
	}
	if o.resetTCP {
		cfg.ResetTCP, cfg.Own.ResetTCP = conntrack.Grace, conntrack.Grace
	}
	return cfg
}
