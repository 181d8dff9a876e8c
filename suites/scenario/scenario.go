// Package scenario runs a named disturbance against one dataplane after another
// and hands what was recorded to the verdict.
//
//	Find     a scenario by name          (catalog.go)
//	Run      every row on a stage        (run.go)
//	rollout  one restart under load      (rollout.go)
//
// It knows no kind of cluster: what it runs on arrives as a Stage.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/probe"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
)

// Scenario is a rolling update of one replica that moves between nodes, under
// externalTrafficPolicy=Local, while clients keep connecting.
type Scenario struct {
	Name, Title string
	Rows        []row.Row
	Rollouts    int     // counted per row
	Rate        float64 // new connections per second
	Timeout     time.Duration
	Delay       time.Duration // the app serves this long after SIGTERM
	PreStop     time.Duration
	Grace       time.Duration // 0: enough for PreStop and Delay
	MinReady    time.Duration
	Unready     bool // the app fails its readiness on SIGTERM
	Profile     string
	Seed        uint64
	MaxLost     int // requests that a row which is judged may lose in all
	Background  Background
	Timeouts    Timeouts
	Anecdote    bool // E1-E3: print what the client saw; the band does not judge
}

// Timeouts are the waits for what is no matter of the dataplane.
type Timeouts struct {
	Settle     time.Duration // for the workload and the balancer, beyond the pod's own time
	Background time.Duration // for all that runs beside the workload
}

// DefaultTimeouts are long for a quiet host.
func DefaultTimeouts() Timeouts {
	return Timeouts{Settle: 90 * time.Second, Background: 5 * time.Minute}
}

// mode is how a row treats terminating endpoints; upstream has KEP-1669.
func mode(r row.Row) report.Mode {
	if r.Ignores() {
		return report.Ignore
	}
	return report.Fallback
}

// grace is the pods' terminationGracePeriodSeconds.
func (s Scenario) grace() time.Duration {
	if s.Grace > 0 {
		return s.Grace
	}
	return s.PreStop + s.Delay + 10*time.Second
}

// Validate says in one line what is wrong with a scenario, before anything runs.
func (s Scenario) Validate() error {
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{len(s.Rows) == 0, "no rows: name at least one dataplane"},
		{s.Rollouts < 1 || s.Rollouts > 1000, fmt.Sprintf("%d rollouts: must be 1 to 1000", s.Rollouts)},
		{s.MaxLost < 0, fmt.Sprintf("%d lost requests: must not be negative", s.MaxLost)},
		{s.Timeout <= 0 || s.Timeout > hardDeadline, fmt.Sprintf("timeout %s: must be above 0 and at most %s", s.Timeout, hardDeadline)},
		{s.Background.Pods < 0 || s.Background.Services < 0, "background pods and services must not be negative"},
		{s.Background.Services > 0 && s.Background.Pods == 0, "background services need background pods to select"},
		{s.Delay < 0 || s.PreStop < 0 || s.MinReady < 0 || s.Grace < 0, "delay, preStop, grace and minReady must not be negative"},
		{s.Delay > 10*time.Minute || s.PreStop > 10*time.Minute, "delay and preStop must be at most 10m"},
		{s.PreStop%time.Second != 0 || s.Grace%time.Second != 0 || s.MinReady%time.Second != 0, "preStop, grace and minReady must be whole seconds, as Kubernetes takes them"},
		{s.Grace > 0 && s.Grace < s.PreStop, fmt.Sprintf("grace %s is shorter than preStop %s: the pod would be killed before it is told", s.Grace, s.PreStop)},
	} {
		if c.bad {
			return errors.New(c.what)
		}
	}
	return nil
}

// CheckHost says in one line why this host cannot send what the scenario asks
// for, before anything runs.
func (s Scenario) CheckHost() error {
	anywhere := netip.MustParseAddrPort("127.0.0.1:80")
	return probe.CheckRate(probe.Config{Stream: record.Main, Target: anywhere, Rate: s.Rate, Deadline: hardDeadline})
}

// Stage is what a scenario runs on.
type Stage interface {
	// Kind is kind, lab or existing.
	Kind() string
	// UsedMiB is how much less memory the host has free now than before all was
	// brought up.
	UsedMiB() int
	// Run is the run in the cluster: in names, and on what it makes.
	Run() cluster.Run
	// Cluster has no dataplane until Install.
	Cluster() cluster.Cluster
	// Install installs the row's dataplane and returns when it forwards; remove
	// takes it away again and fails if anything of it is left. An error that is a
	// cluster.Unsupported says that it was not tried.
	Install(ctx context.Context, r row.Row) (version string, remove func(context.Context) error, err error)
	// LB is the load balancer in front.
	LB() LB
	// SharesAddress says that the load balancer, or who comes without one, reaches the nodes
	// from the harness's own address.
	SharesAddress() bool
	// DualStack says that Services have both IP families and the load balancer serves them.
	DualStack() bool
	// Echo is the workload's image; Control a server that no dataplane forwards for.
	Echo() string
	Control() netip.AddrPort
}

// Front is what stands between the clients and the nodes.
type Front string

const (
	OurLB     Front = "ours"    // plumb-lb's HAProxy: its states and connections are recorded
	ClusterLB Front = "cluster" // the cluster's own load balancer, of which nothing is known
	NoLB      Front = "none"    // clients go to a node port of one node, under policy Cluster
)

// LB is the load balancer of a stage: its profile, and what it records. Only
// OurLB is asked for more than its Front and Profile.
type LB interface {
	Front() Front
	Profile() report.LB
	// Class is the loadBalancerClass of its Services; empty: they need none.
	Class() string
	// AwaitServers waits until exactly these nodes are UP at a Service's balancer.
	AwaitServers(ctx context.Context, service string, nodes ...string) error
	// Died is closed if the balancer's provider ends by itself; Err says why.
	Died() <-chan struct{}
	Err() error
	Conns() ([]record.Conn, error)
	Events() ([]record.Event, error)
}
