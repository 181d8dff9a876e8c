package run

import (
	"context"
	"net/netip"

	"github.com/plumbline/plumbline/fixtures/cluster"
	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/report"
	"github.com/plumbline/plumbline/suites/row"
)

// Stage is what scenarios run on. One whose LB is a disrupt.Balancers has its balancers within reach
// of acts, one that is a disrupt.Agents the agents.
type Stage interface {
	// Kind is kind, lab or existing.
	Kind() string
	// UsedMiB is how much less memory the host has free now than before all was
	// brought up.
	UsedMiB() int
	// AwaitQuiet gives a busy host time to become quiet, as much as is left of what the run may spend on
	// that, and says so.
	AwaitQuiet(ctx context.Context) error
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
	// Latencies are what the model may take for granted of the cluster.
	Latencies() report.Latencies
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
	// Died is closed if the balancer's provider ends by itself; Err says why.
	Died() <-chan struct{}
	Err() error
	Conns() ([]record.Conn, error)
	Events() ([]record.Event, error)
}
