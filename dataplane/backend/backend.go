// Package backend has the dataplanes there are, one entry each: how they are started, cleaned
// and rendered, and what they may ask of a node. What a node and a pod are to have for them is
// in fixtures/cluster/backend.go.
package backend

import (
	"context"
	"log/slog"
	"strings"
	"time"

	ciliumebpf "github.com/cilium/ebpf"

	"github.com/plumbline/plumbline/dataplane/iptables"
	"github.com/plumbline/plumbline/dataplane/loop"
	"github.com/plumbline/plumbline/dataplane/nftables"
	"github.com/plumbline/plumbline/dataplane/node"
	"github.com/plumbline/plumbline/dataplane/plan"
	"github.com/plumbline/plumbline/dataplane/userspace"
)

// Backend is what the agent needs of a dataplane.
type Backend struct {
	// Start makes one; nothing is changed before its first Apply.
	Start func(Options, *slog.Logger) Running
	// Clean removes what it leaves in the kernel; Left names that.
	Clean func() error
	Left  func() ([]string, error)
	// Damage removes, as somebody else might, what a running agent puts back.
	Damage func() error
	// Render is a plan in the backend's own words, without a kernel.
	Render func(*plan.Plan) string
	// Scripts are a plan in the words of a tool, by the tool's name; none: no tool's words
	// say it.
	Scripts map[string]func(*plan.Plan) string
	// Needs are the capabilities of a process that starts one; those to clean are
	// the same.
	Needs func(context.Context, Options) []node.Capability
	// SCTP tells whether this kernel can serve SCTP ports; nil: never.
	SCTP func() (bool, error)
	// Table of nftables, or what the names of its chains in iptables begin with: what its
	// rules are told by.
	Table, Chains string
	// Keeps is what remembers where this backend sent a connection.
	Keeps Keeper
	// Forwarded: what it translates crosses the node's forward hook like anybody's packet, and no
	// rule of its own lets it through there.
	Forwarded bool
	// NoNode is why connections of the node's own network namespace are not served; empty: they
	// are. With Sockets this is so where Options.Cgroup is empty.
	NoNode string
	// Sockets: with Options.Cgroup it translates at their sockets what begins on the node, as of
	// plan.Options.Sockets.
	Sockets bool
	// Prepare does what a node needs for it beside sysctls, and what the agent itself has no right
	// to do (--init-only); nil: nothing.
	Prepare func() error
}

// Keeper remembers where connections go, and so says what becomes of open ones when another
// backend takes the node over.
type Keeper int

const (
	Process   Keeper = iota // they pass through the process, and end with it
	Conntrack               // they go on, whoever's rules there are
	Maps                    // of the backend: they go on until these are taken away
)

// Stays is the error of a Clean that has done all it can: what else there is stays until somebody
// else does something about it.
type Stays struct {
	What   []string
	Undone bool // it is to go, and does where more is allowed: who was asked to clean up has failed
}

func (s *Stays) Error() string { return strings.Join(s.What, "; ") }

// Running is a dataplane at work.
type Running struct {
	loop.Target
	// Close ends what only this process holds. Rules stay.
	Close func() error
	// Watch calls lost when somebody else may have changed what the target keeps,
	// until ctx ends; nil: nothing tells of that but the hourly check.
	Watch  func(ctx context.Context, lost func()) error
	Counts []Count // metrics of its own
	Series Series  // those with labels
	// Looks are what its operator is to be told of as long as it is so.
	Looks []Look
	// WithoutIPv6 tells, at any time, whether this kernel lacks what IPv6 takes; nil: it never does.
	WithoutIPv6 func() bool
	// Path is the way of a packet to a frontend, as the kernel has it; nil: there
	// is none to show.
	Path func(*plan.Plan, plan.Key) (string, error)
	// Live is a plan whose frontends are as the kernel has them, and which of them it lacks; nil: what
	// was applied is shown as it was planned.
	Live func(*plan.Plan) (*plan.Plan, []plan.Key, error)
}

// Count is a number that only one backend has.
type Count struct {
	Name, Help string
	Value      func() float64
}

// Series are metrics with labels that only one backend has, which are read together.
type Series struct {
	Metrics []Metric
	// Read calls emit with every value of each metric, by its name, and the labels in their order.
	Read func(emit func(metric string, value float64, labels ...string)) error
}

// Metric is one of Series.
type Metric struct {
	Name, Help string
	Labels     []string
	Total      bool // it counts, and starts at 0 with the node's state, not with the process
}

// Look is something that others change or that time brings, told in an Event of the Node.
type Look struct {
	Reason string // of the Event
	Cure   string // what to do about it
	// Amiss has a line for each thing that is not as it is to be, the same for as long as that is
	// so. It is asked every minute.
	Amiss func() ([]string, error)
}

// All are all there are, in a network namespace; 0 is the process's own.
func All(netns int) map[string]Backend {
	return map[string]Backend{
		"nftables": {
			Start: func(o Options, log *slog.Logger) Running {
				t := nftables.New(nftables.Config{Logger: log, NetNS: netns, Own: o.OwnTables})
				return Running{
					Target: t, Close: t.Close, Watch: t.Watch, WithoutIPv6: t.WithoutIPv6,
					Path: func(p *plan.Plan, k plan.Key) (string, error) { return nftables.Path(p, k, netns) },
				}
			},
			SCTP:  func() (bool, error) { return sctp(netns) },
			Clean: func() error { return nftables.Clean(netns) }, Damage: func() error { return nftables.Clean(netns) }, Left: func() ([]string, error) { return nftables.Left(netns) }, Render: nftables.Render, Table: nftables.TableName,
			Scripts: map[string]func(*plan.Plan) string{"nftables": nftables.Script},
			Needs:   func(context.Context, Options) []node.Capability { return []node.Capability{node.NetAdmin} },
			Keeps:   Conntrack,
		},
		"iptables": {
			Start: func(o Options, log *slog.Logger) Running {
				flavour := o.Flavour
				t := iptables.New(iptables.Config{Logger: log, NetNS: netns, Flavour: flavour, Mark: 1 << o.MasqueradeBit})
				return Running{
					Target: t, Close: t.Close, WithoutIPv6: t.WithoutIPv6,
					Watch: func(ctx context.Context, lost func()) error { return t.Poll(ctx, o.Poll, lost) },
					Path: func(p *plan.Plan, k plan.Key) (string, error) {
						return iptables.Path(flavour, p, k, netns)
					},
				}
			},
			// Where the match for SCTP is missing, the Service is refused.
			SCTP:  func() (bool, error) { return sctp(netns) },
			Clean: func() error { return iptables.Clean(netns) }, Damage: func() error { return iptables.Clean(netns) }, Left: func() ([]string, error) { return iptables.Left(netns) }, Render: iptables.Render, Chains: iptables.Prefix,
			Scripts: map[string]func(*plan.Plan) string{
				"iptables":  func(p *plan.Plan) string { return iptables.Script(p, false) },
				"ip6tables": func(p *plan.Plan) string { return iptables.Script(p, true) },
			},
			Needs: func(ctx context.Context, o Options) []node.Capability {
				// Where the program cannot be asked, Apply says why it cannot be used.
				if f, err := o.Flavour.Resolve(ctx, netns); err == nil && f == iptables.Legacy {
					return []node.Capability{node.NetAdmin, node.NetRaw} // its programs open a raw socket
				}
				return []node.Capability{node.NetAdmin}
			},
			Keeps: Conntrack,
		},
		"userspace": {
			Start: func(o Options, log *slog.Logger) Running {
				t := userspace.New(userspace.Config{Logger: log, NetNS: netns, StateDir: o.StateDir, Others: o.Others})
				return Running{
					Target: t, Close: t.Close, Watch: t.Watch,
					Path:   func(p *plan.Plan, k plan.Key) (string, error) { return userspace.Path(p, k, netns) },
					Counts: userspaceCounts(t),
				}
			},
			Clean: func() error { return userspace.Clean(netns) }, Damage: func() error { return userspace.Clean(netns) }, Left: func() ([]string, error) { return userspace.Left(netns) }, Render: userspace.Render, Table: userspace.TableName,
			// It answers from the port of a UDP frontend, which may be below 1024.
			Needs: func(context.Context, Options) []node.Capability {
				return []node.Capability{node.NetAdmin, node.NetBind}
			},
		},
		"ebpf": overEBPF(netns),
	}
}

// sctp tells whether the kernel tracks and translates SCTP, which shows only when
// conntrack is loaded.
func sctp(netns int) (bool, error) {
	if nftables.SCTP() {
		return true, nil
	}
	if err := nftables.LoadConntrack(netns); err != nil {
		return false, err // iptables does without nf_tables, which that takes
	}
	return nftables.SCTP(), nil
}

// userspaceCounts tell what a proxy has that ends with it, and what has ended so.
func userspaceCounts(t *userspace.Target) []Count {
	return []Count{
		{"plumbline_userspace_connections", "TCP connections that would end with the proxy.", func() float64 { return float64(t.Stats().Connections) }},
		{"plumbline_userspace_flows", "UDP flows that would end with the proxy.", func() float64 { return float64(t.Stats().Flows) }},
		{"plumbline_userspace_lost_connections", "TCP connections that ended with the proxy's predecessor.", func() float64 { return float64(t.Stats().LostConnections) }},
		{"plumbline_userspace_lost_flows", "UDP flows that ended with the proxy's predecessor.", func() float64 { return float64(t.Stats().LostFlows) }},
		{"plumbline_userspace_unreachable", "Endpoints that refused or did not answer so far.", func() float64 { return float64(t.Stats().Unreachable) }},
	}
}

// Options are those of one backend each.
type Options struct {
	OwnTables     bool             // of nftables: nobody else writes to them while the process runs
	Flavour       iptables.Flavour // of iptables
	Poll          time.Duration    // between two looks at iptables' own chains: nothing else tells that somebody has changed them
	MasqueradeBit uint             // of the packet mark, by which iptables' rules ask for masquerading
	StateDir      string           // of userspace, which notes there what would end with it; empty: nowhere
	VerifierLog   string           // of ebpf, the file that the verifier's words go to; empty: nowhere
	Cgroup        string           // of ebpf, the node's cgroup2: what begins within is translated at its socket; empty: nothing is
	PodSpaces     string           // of ebpf, a folder of pods' network namespaces, whose UDP sockets are ended when their endpoint is gone; empty: they are counted
	ResetTCP      time.Duration    // of ebpf: TCP sockets whose endpoint has been gone for so long are ended; 0: never
	// Alter, of ebpf and for tests alone, changes the programs before they are loaded (ebpf.Config); nil: nothing.
	Alter func(*ciliumebpf.CollectionSpec) error
	// Others takes away what other backends left, in the middle of a complete Apply of
	// userspace; nil if there is nothing.
	Others func() (take func())
}
