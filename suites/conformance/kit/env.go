package kit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/disrupt"
	"github.com/plumbline/plumbline/fixtures/probe/remote"
	"github.com/plumbline/plumbline/suites/run"
)

// Outside is the name of the client outside the cluster.
const Outside = "outside"

// Stage is what behaviours run on: a cluster with the dataplane in it.
type Stage interface {
	Kind() string
	Run() cluster.Run
	Cluster() cluster.Cluster
}

// Config says how an Env is opened.
type Config struct {
	Image    string // of plumb-probe
	Families []corev1.IPFamily
	Features map[Feature]string // those the dataplane does not have, and why
	Health   HealthAt           // of the dataplane's proxies
	Evidence [][]string         // commands that print what a node has for a frontend (see frontend.words)
	Flush    [][]string         // commands that remove the dataplane's rules from a node
	Dir      string             // evidence goes here; empty: none is kept
	Parallel int                // behaviours that run side by side
	Seed     int64              // of their order
	Limit    time.Duration      // how late a dataplane may follow a change; 0: Limit
	Timeouts Timeouts
	Ranges   remote.Ranges // further ones that probes may connect into; see ranges
	Log      *slog.Logger
}

// Env is a cluster with a dataplane and probes on every node.
type Env struct {
	cfg       Config
	stage     Stage
	namespace string
	uid       types.UID // of that namespace, which is the run's
	client    kubernetes.Interface
	version   string        // of the cluster's API server
	key       *remote.Key   // of this run's probes
	ranges    remote.Ranges // that they connect into
	nodes     []*Node
	outside   Client
	within    string // the node at whose address this program runs, as in a pod of its network

	unlimited bool  // nodes send every ICMP error
	denied    error // why Services may have no external IPs; nil: they may

	mu      sync.Mutex // guards the fields below
	noise   Noise
	took    []time.Duration // latencies of answered control attempts
	numbers map[string]int  // the last given of each kind of address that is made up
	used    map[string]bool // those that a behaviour has now
	spare   []*beyond       // hosts outside that no behaviour has, the longest first
	repeats int             // behaviours that were made anew

	allowances map[netip.Addr]*allowance // of ICMP errors, by the address they are sent to
	icmp       map[remote.Network]bool   // it has refused attempts of these
}

// Noise is what the control attempts of a run came to.
type Noise struct {
	Attempts, Failed int
	P99              time.Duration // of the latencies of those that were answered
}

// controlPort is where probes are told what to do. It is none that tests use.
const controlPort = 39797

// Open puts probes on every node that takes pods and is none of the control plane's, and connects to
// them.
func Open(ctx context.Context, st Stage, cfg Config) (*Env, error) {
	e := &Env{cfg: cfg, stage: st, namespace: Namespace(st.Run()), numbers: map[string]int{}, used: map[string]bool{}}
	var err error
	if e.client, err = kubernetes.NewForConfig(st.Cluster().RESTConfig()); err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	version, err := e.client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("ask for the version of Kubernetes: %w", err)
	}
	e.version = version.GitVersion
	if e.key, err = remote.NewKey(); err != nil {
		return nil, err
	}
	if st.Kind() != "existing" { // whose nodes are somebody's
		if err := e.unlimit(ctx); err != nil {
			return nil, err
		}
	}
	if st.Kind() == "kind" { // whose nodes are ours, and in no zone
		if err := e.spread(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.deploy(ctx); err != nil {
		return nil, err
	}
	if err := e.findDenied(ctx); err != nil {
		return nil, err
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	if e.within, err = e.findWithin(ctx); err != nil {
		return nil, err
	}
	e.outside = Client{Name: Outside, probe: remote.Local(ctx, Outside, nil)}
	return e, nil
}

// connect waits for the probes' pods, and speaks to each: to those on the nodes
// directly, to pods by way of their node's.
func (e *Env) connect(ctx context.Context) error {
	nodes, err := e.stage.Cluster().Nodes(ctx)
	if err != nil {
		return err
	}
	nodes = slices.DeleteFunc(nodes, func(n cluster.Node) bool { return n.ControlPlane })
	if len(nodes) < Enough {
		return fmt.Errorf("the suite needs %d nodes that take pods; the cluster has %d", Enough, len(nodes))
	}
	pods, err := e.awaitProbes(ctx, nodes)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		node := &Node{Name: n.Name, NetNS: n.NetNS}
		control := netip.AddrPortFrom(n.Addrs[0], controlPort)
		probe, err := remote.Dial(ctx, control, e.key, nil)
		if err != nil {
			return fmt.Errorf("reach the probe of node %s: %w", n.Name, err)
		}
		node.Client = Client{Name: n.Name, probe: probe, addrs: families(n.Addrs)}
		if node.A, err = e.pod(ctx, node, pods["probe-a"][n.Name]); err != nil {
			return err
		}
		if node.B, err = e.pod(ctx, node, pods["probe-b"][n.Name]); err != nil {
			return err
		}
		api, err := e.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read node %s: %w", n.Name, err)
		}
		node.Zone = api.Labels[corev1.LabelTopologyZone]
		e.nodes = append(e.nodes, node)
	}
	slices.SortFunc(e.nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Enough nodes take pods: a client, and endpoints on others, in three zones.
const Enough = 4

func (e *Env) pod(ctx context.Context, n *Node, p corev1.Pod) (*Pod, error) {
	var addrs []netip.Addr
	for _, ip := range p.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return nil, fmt.Errorf("read the address of pod %s: %w", p.Name, err)
		}
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("pod %s has no address", p.Name)
	}
	for _, a := range addrs {
		if !e.ranges.Contain(a) {
			return nil, fmt.Errorf("pod %s has the address %s, and the Nodes' podCIDRs do not: give --probe-ranges the range of pods", p.Name, a)
		}
	}
	probe, err := n.probe.Via(ctx, netip.AddrPortFrom(addrs[0], controlPort))
	if err != nil {
		return nil, fmt.Errorf("reach the probe of pod %s by way of node %s: %w", p.Name, n.Name, err)
	}
	return &Pod{Client{Name: p.Name, probe: probe, addrs: families(addrs)}, n}, nil
}

func families(addrs []netip.Addr) map[corev1.IPFamily]netip.Addr {
	out := map[corev1.IPFamily]netip.Addr{}
	for _, a := range addrs {
		if _, ok := out[familyOf(a)]; !ok {
			out[familyOf(a)] = a
		}
	}
	return out
}

// Close ends the connections to the probes. Their pods go with the namespace.
func (e *Env) Close(ctx context.Context) error {
	for _, n := range e.nodes {
		for _, c := range []Client{n.A.Client, n.B.Client, n.Client} {
			c.probe.Close()
		}
	}
	e.outside.probe.Close()
	closed := e.closeSpares()
	background := metav1.DeletePropagationBackground
	err := e.client.CoreV1().Namespaces().Delete(ctx, e.namespace, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &e.uid},
	})
	if err != nil {
		err = fmt.Errorf("delete namespace %s: %w", e.namespace, err)
	}
	return errors.Join(closed, err)
}

// Noise is what the control attempts came to so far.
func (e *Env) Noise() Noise {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.noise
	if sorted := slices.Sorted(slices.Values(e.took)); len(sorted) > 0 {
		n.P99 = sorted[(len(sorted)-1)*99/100]
	}
	return n
}

func (e *Env) count(res *remote.Results) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range res.Attempts {
		e.noise.Attempts++
		if r.Class != remote.OK {
			e.noise.Failed++
			continue
		}
		e.took = append(e.took, r.Latency)
	}
}

func (e *Env) isNode(c Client) bool {
	return slices.ContainsFunc(e.nodes, func(n *Node) bool { return n.Name == c.Name })
}

// Zones is how many zones the nodes are in.
func (e *Env) Zones() int {
	zones := map[string]bool{}
	for _, n := range e.nodes {
		zones[n.Zone] = true
	}
	delete(zones, "")
	return len(zones)
}

// Outside is the client outside the cluster.
func (s *Spec) Outside() Client { return s.env.outside }

// missing says what the cluster lacks of a need; empty: nothing.
func (e *Env) missing(n Need) string {
	switch n {
	case NeedZones:
		if e.Zones() < 3 {
			return fmt.Sprintf("nodes in three zones (there are %d)", e.Zones())
		}
		return ""
	case NeedNodes, NeedAPI:
		if e.world().Lacks(disrupt.NeedNodes) != "" {
			return "a way into the nodes"
		}
		return ""
	case NeedDual:
		if len(e.cfg.Families) < 2 {
			return "both IP families"
		}
		return ""
	case NeedLB:
		if s, ok := e.stage.(fronted); !ok || s.LB().Front() != run.OurLB || e.stage.Kind() == "existing" {
			return "a load balancer of ours with an address that pods reach too" // on an existing cluster it is on this host's loopback
		}
		return ""
	case NeedAgents:
		if e.world().Lacks(disrupt.NeedAgents) != "" {
			return "a way to stop and start the dataplane's agents"
		}
		return ""
	case NeedTaint:
		if e.stage.Kind() == "existing" {
			return "leave to write Nodes: the cluster is not ours"
		}
		return ""
	case NeedOutside:
		if e.within != "" && e.stage.Kind() == "existing" { // all others are made beside it
			return "a client outside: the suite runs at the address of node " + e.within
		}
		return ""
	case NeedServices:
		if e.stage.Kind() == "existing" {
			return "leave to write ServiceCIDRs: the cluster is not ours"
		}
		return ""
	}
	return "support for " + string(n)
}
